//! K-means: assigns points to the nearest of k centres and moves centres to the mean of their points, until nothing
//! changes.
//!
//!     cargo run --release -p thalweg --example kmeans

use thalweg::prelude::*;

const K: usize = 5;

fn main() -> Result<(), Error> {
    thalweg::manual_seed(3);
    // Five clouds of 2,000 points around centres unknown to the algorithm.
    let true_centres = Tensor::uniform(-10.0, 10.0, (K, 2));
    let points = (true_centres.repeat(2000, 0) + Tensor::randn((K * 2000, 2))).shuffle(0);

    // Initial centres far from each other: each next one is drawn by its distance from the existing ones.
    let mut centres = points.slice(..1);
    while centres.size(0) < K {
        let nearest = points.cdist(&centres, 2.0).amin(1);
        let next = nearest.square().multinomial(1, true);
        centres = Tensor::cat(&[&centres, &points.index_select(0, &next)], 0);
    }
    let mut turns = 0;
    let class = loop {
        let class = points.cdist(&centres, 2.0).argmin(1);
        let sums = Tensor::zeros((K, 2)).index_add(0, &class, &points);
        let counts = Tensor::zeros((K, 1)).index_add(0, &class, 1.0);
        let moved = counts.gt(0).where_(sums / &counts, &centres);
        let step = (&moved - &centres).norm(1).amax(..);
        centres = moved;
        turns += 1;
        if step.item_f64()? < 1e-4 {
            break class;
        }
    };
    let counts = class.bincount(K)?.to_vec::<i64>()?;
    let spread = (&points - centres.index_select(0, &class)).square().sum(1).mean(..);
    println!("{turns} turns; mean squared distance {:.3}", spread.item_f64()?);
    println!("{:>8} {:>8} {:>8} {:>16}", "x", "y", "points", "off by");
    let off = centres.cdist(&true_centres, 2.0).amin(1).to_vec::<f32>()?;
    for (i, centre) in centres.iter().enumerate() {
        let xy = centre.to_vec::<f32>()?;
        println!("{:>8.3} {:>8.3} {:>8} {:>16.3}", xy[0], xy[1], counts[i], off[i]);
    }
    Ok(())
}
