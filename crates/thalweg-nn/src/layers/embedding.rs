//! Embeddings.

use crate::{Module, Tensor, leaf};

/// A vector for each of `count` indices.
///
/// ```
/// use thalweg_nn::prelude::*;
/// let words = Embedding::new(10, 4);
/// assert_eq!(words.forward(&Tensor::new([[1i64, 9, 0]])).dims(), [1, 3, 4]);
/// ```
#[derive(Module, Clone)]
pub struct Embedding {
    /// `[count, size]`.
    pub weight: Tensor,
    padding: Option<usize>,
}

impl Embedding {
    /// Standard normal vectors.
    #[track_caller]
    pub fn new(count: usize, size: usize) -> Embedding {
        Embedding { weight: leaf::new(Tensor::randn([count, size])), padding: None }
    }

    /// With an index whose vector starts as zeros and that no gradient changes.
    ///
    /// # Panics
    /// When there is no such index.
    #[must_use]
    #[track_caller]
    pub fn padding(self, index: usize) -> Embedding {
        let count = self.weight.dims()[0];
        assert!(index < count, "Embedding: the padding index {index} is none of {count}");
        let rows = Tensor::arange_with(count, thalweg::DType::I64).reshape([count, 1]);
        Embedding { weight: leaf::new(rows.eq(index as i64).where_(0.0, &self.weight)), padding: Some(index) }
    }

    /// Indices of any shape, of an integer dtype, to `[.., size]`. An index that is none of them is an error where a
    /// value is read.
    ///
    /// # Panics
    /// When the dtype is not an integer.
    #[track_caller]
    pub fn forward(&self, index: &Tensor) -> Tensor {
        let vectors = self.weight.embedding(index);
        match self.padding {
            Some(padding) => index.eq(padding as i64).unsqueeze(-1).where_(leaf::detached(&vectors), vectors),
            None => vectors,
        }
    }
}
