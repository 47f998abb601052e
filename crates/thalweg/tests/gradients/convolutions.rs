//! Convolutions and transposed convolutions with all combinations of options, against differences.

use crate::differences::{check, numbers};
use thalweg::{Conv, ConvTranspose};

/// Stride, dilation, padding, kernel and groups of one axis.
fn options() -> impl Iterator<Item = [usize; 5]> {
    [1, 2, 3].into_iter().flat_map(|stride| {
        [[1, 0, 1, 1], [1, 1, 3, 1], [2, 1, 3, 2], [1, 0, 4, 4], [1, 1, 2, 1], [3, 2, 3, 1]]
            .map(|[dilation, padding, kernel, groups]| [stride, dilation, padding, kernel, groups])
    })
}

#[test]
fn of_one_axis() {
    for [stride, dilation, padding, kernel, groups] in options() {
        let name = format!("stride {stride}, dilation {dilation}, padding {padding}, kernel {kernel}, groups {groups}");
        // Elements after the last window, too.
        let x = numbers(1, [2, 4, 11], -1.0, 1.0);
        let xs = [x, numbers(2, [4, 4 / groups, kernel], -1.0, 1.0), numbers(3, [4], -1.0, 1.0)];
        let way = Conv::default().stride(stride).dilation(dilation).padding(padding).groups(groups);
        check(&name, &xs, &|x| x[0].conv1d(&x[1], Some(&x[2]), way).sin());
        for more in 0..stride {
            let xs = [numbers(1, [1, 4, 5], -1.0, 1.0), numbers(2, [4, 4 / groups, kernel], -1.0, 1.0)];
            let way = ConvTranspose::default().stride(stride).dilation(dilation).padding(padding).groups(groups);
            check(&format!("transposed, {name}"), &xs, &|x| {
                x[0].conv_transpose1d(&x[1], None, way.output_padding(more)).sin()
            });
        }
    }
}

#[test]
fn of_several_axes() {
    let x = [numbers(1, [1, 2, 5, 6], -1.0, 1.0), numbers(2, [2, 2, 3, 2], -1.0, 1.0)];
    check("uneven", &x, &|x| x[0].conv2d(&x[1], None, Conv::default().stride([2, 1]).padding([1, 0])).sin());
    check("transposed", &x, &|x| {
        x[0].conv_transpose2d(&x[1], None, ConvTranspose::default().stride([2, 3]).padding([1, 0])).sin()
    });
    let x = [numbers(1, [1, 1, 3, 4, 3], -1.0, 1.0), numbers(2, [2, 1, 2, 2, 2], -1.0, 1.0)];
    check("deep", &x, &|x| x[0].conv3d(&x[1], None, Conv::default().stride([2, 2, 1]).padding(1)).sin());
}
