//! CSV tables (`.csv`): columns of numbers or of labels.

use super::refused;
use crate::{DType, Device, Error, Tensor};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Format of a table. Defaults: comma-separated, the first row has the column names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct CsvOptions {
    header: bool,
    delimiter: u8,
}

impl Default for CsvOptions {
    fn default() -> CsvOptions {
        CsvOptions { header: true, delimiter: b',' }
    }
}

impl CsvOptions {
    /// Sets whether the first row has the column names. If not, columns are named by number, from 0.
    pub fn header(self, header: bool) -> CsvOptions {
        CsvOptions { header, ..self }
    }

    /// Sets the byte between fields, such as `b';'`.
    pub fn delimiter(self, delimiter: u8) -> CsvOptions {
        CsvOptions { delimiter, ..self }
    }
}

/// Parsed table. Its fields become tensors on request.
///
/// ```
/// use thalweg::{Csv, CsvOptions};
/// let table = Csv::from_bytes(b"size,colour\n1.5,red\n2,blue\n3,red\n", CsvOptions::default())?;
/// assert_eq!(table.numbers(&["size"])?.to_vec::<f32>()?, [1.5, 2.0, 3.0]);
/// let (classes, names) = table.labels("colour")?;
/// assert_eq!((classes.to_vec::<i64>()?, names), (vec![1, 0, 1], vec!["blue".to_string(), "red".to_string()]));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Debug)]
pub struct Csv {
    path: String,
    names: Vec<String>,
    rows: Vec<csv::StringRecord>,
}

impl Csv {
    /// Reads a file, as `pandas.read_csv`.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, is not UTF-8, or a row has more or fewer fields than the first.
    pub fn open(path: impl AsRef<Path>, options: CsvOptions) -> Result<Csv, Error> {
        let shown = path.as_ref().display().to_string();
        let file = std::fs::File::open(path.as_ref()).map_err(|e| refused(&shown, e))?;
        Csv::read(shown, file, options)
    }

    /// Parses the content of a file.
    ///
    /// # Errors
    /// As [`open`](Csv::open); the path of the error is `<bytes>`.
    pub fn from_bytes(bytes: &[u8], options: CsvOptions) -> Result<Csv, Error> {
        Csv::read("<bytes>".to_string(), bytes, options)
    }

    fn read(path: String, from: impl Read, options: CsvOptions) -> Result<Csv, Error> {
        let mut builder = csv::ReaderBuilder::new();
        let builder = builder.has_headers(options.header).delimiter(options.delimiter).trim(csv::Trim::All);
        let mut reader = builder.from_reader(from);
        let read = |reader: &mut csv::Reader<_>| -> csv::Result<(Vec<String>, Vec<csv::StringRecord>)> {
            let names = if options.header { reader.headers()?.iter().map(String::from).collect() } else { Vec::new() };
            Ok((names, reader.records().collect::<csv::Result<_>>()?))
        };
        let (mut names, rows) = read(&mut reader).map_err(|e| refused(&path, e))?;
        if !options.header {
            names = (0..rows.first().map_or(0, csv::StringRecord::len)).map(|i| i.to_string()).collect();
        }
        Ok(Csv { path, names, rows })
    }

    /// The number of rows, without the header.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn column(&self, name: &str) -> Result<usize, Error> {
        self.names.iter().position(|n| n == name).ok_or_else(|| {
            let known = self.names.join(", ");
            refused(&self.path, format!("has no column {name:?}; there are {known}"))
        })
    }

    /// The given columns as f32, `[rows, columns]`. An empty field is NaN.
    ///
    /// # Errors
    /// [`Error::File`] when there is no such column, or a field is not a number, with line and column. Another error
    /// when the device has no memory.
    pub fn numbers(&self, columns: &[&str]) -> Result<Tensor, Error> {
        let at: Vec<usize> = columns.iter().map(|name| self.column(name)).collect::<Result<_, _>>()?;
        let mut numbers: Vec<f32> = Vec::with_capacity(at.len() * self.len());
        for row in &self.rows {
            for (&at, name) in at.iter().zip(columns) {
                let field = &row[at];
                let number = if field.is_empty() { Ok(f32::NAN) } else { field.parse() };
                numbers.push(number.map_err(|_| {
                    let line = row.position().map_or(0, csv::Position::line);
                    refused(&self.path, format!("line {line}, column {name:?}: {field:?} is no number"))
                })?);
            }
        }
        Tensor::try_from_slice(&numbers, [self.len(), at.len()], Device::try_default()?)
    }

    /// All columns as f32, `[rows, columns]`.
    ///
    /// # Errors
    /// As [`numbers`](Csv::numbers).
    pub fn all_numbers(&self) -> Result<Tensor, Error> {
        self.numbers(&self.names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// A column of labels as class indices, `[rows]` of i64, and the labels by index, in alphabetical order.
    ///
    /// # Errors
    /// [`Error::File`] when there is no such column, another error when the device has no memory.
    pub fn labels(&self, column: &str) -> Result<(Tensor, Vec<String>), Error> {
        let at = self.column(column)?;
        let mut classes: BTreeMap<&str, i64> = self.rows.iter().map(|row| (&row[at], 0)).collect();
        classes.values_mut().zip(0..).for_each(|(class, number)| *class = number);
        let numbers: Vec<i64> = self.rows.iter().map(|row| classes[&row[at]]).collect();
        let tensor = Tensor::try_from_slice(&numbers, [self.len()], Device::try_default()?)?;
        debug_assert_eq!(tensor.dtype(), DType::I64);
        Ok((tensor, classes.into_keys().map(String::from).collect()))
    }
}
