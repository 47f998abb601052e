//! Statistics of a CSV table with a column of classes and columns of numbers with missing values: by class, and between
//! columns.
//!
//!     cargo run --release -p thalweg --features csv --example table [FILE CLASS COLUMN..]

use thalweg::prelude::*;
use thalweg::{Csv, CsvOptions};

/// Data if no file is given: heights and weights of three classes, some of them missing.
fn made() -> Result<Csv, Error> {
    thalweg::manual_seed(11);
    let kind = Tensor::randint(0..3, 600);
    let height = kind.cast(DType::F32) * 12.0 + 150.0 + Tensor::randn(600) * 6.0;
    let weight = &height * 0.9 - 90.0 + Tensor::randn(600) * 5.0;
    let missing = Tensor::rand((600, 2)).lt(0.05);
    let holes = missing.where_(f64::NAN, Tensor::stack(&[height, weight], 1)).to_vec::<f32>()?;
    let mut text = String::from("kind,height,weight\n");
    for (kind, row) in kind.to_vec::<i64>()?.iter().zip(holes.chunks(2)) {
        let field = |v: f32| if v.is_nan() { String::new() } else { format!("{v:.1}") };
        text += &format!("{},{},{}\n", ["small", "medium", "tall"][*kind as usize], field(row[0]), field(row[1]));
    }
    Csv::from_bytes(text.as_bytes(), CsvOptions::default())
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (table, class, columns) = match &arguments[..] {
        [file, class, columns @ ..] if !columns.is_empty() => {
            (Csv::open(file, CsvOptions::default())?, class.clone(), columns.to_vec())
        }
        _ => (made()?, "kind".to_string(), vec!["height".to_string(), "weight".to_string()]),
    };
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let x = table.numbers(&names)?;
    let (labels, classes) = table.labels(&class)?;
    println!(
        "{:<12} {:<12} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9}",
        class, "column", "rows", "holes", "mean", "std", "median", "90 %"
    );
    for (number, name) in classes.iter().enumerate() {
        let rows = labels.eq(number as i64).flat_nonzero()?;
        let own = x.index_select(0, &rows);
        let all = [own.nanmean(0), own.nanstd(0), own.nanmedian(0), own.nanquantile(0.9, 0)];
        let all = Tensor::stack(&all, 1).to_vec::<f32>()?;
        let holes = own.is_nan().sum(0).to_vec::<i64>()?;
        for (column, (row, holes)) in names.iter().zip(all.chunks(4).zip(holes)) {
            let [mean, std, median, most] = row else { unreachable!("four were stacked") };
            let n = rows.numel();
            println!("{name:<12} {column:<12} {n:>7} {holes:>7} {mean:>9.2} {std:>9.2} {median:>9.2} {most:>9.2}");
        }
    }
    let whole = x.is_nan().any(1).not().flat_nonzero()?;
    println!("correlations, of {} rows without holes:", whole.numel());
    for (name, row) in names.iter().zip(&x.index_select(0, &whole).t().corrcoef()) {
        let row: Vec<String> = row.to_vec::<f32>()?.iter().map(|v| format!("{v:>8.3}")).collect();
        println!("{name:<12} {}", row.join(" "));
    }
    Ok(())
}
