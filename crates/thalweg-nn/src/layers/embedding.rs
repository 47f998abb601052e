//! Embedding layer.

use crate::{Module, Tensor, leaf};

/// Embedding table: a vector for each of `count` indices, as `torch.nn.Embedding`.
///
/// ```
/// use thalweg_nn::prelude::*;
/// let words = Embedding::new(10, 4);
/// assert_eq!(words.forward(&Tensor::new([[1i64, 9, 0]])).dims(), [1, 3, 4]);
/// ```
#[derive(Module, Clone)]
pub struct Embedding {
    /// Table of embedding vectors, `[count, size]`.
    pub weight: Tensor,
    padding: Option<usize>,
}

impl Embedding {
    /// Makes a table of standard normal vectors.
    #[track_caller]
    pub fn new(count: usize, size: usize) -> Embedding {
        Embedding { weight: leaf::new(Tensor::randn([count, size])), padding: None }
    }

    /// Sets the padding index: its vector starts as zeros and gets no gradient.
    ///
    /// # Panics
    /// If the index is not below `count`.
    #[must_use]
    #[track_caller]
    pub fn padding(self, index: usize) -> Embedding {
        let count = self.weight.dims()[0];
        assert!(index < count, "Embedding: the padding index {index} is none of {count}");
        let rows = Tensor::arange_with(count, thalweg::DType::I64).reshape([count, 1]);
        Embedding { weight: leaf::new(rows.eq(index as i64).where_(0.0, &self.weight)), padding: Some(index) }
    }

    /// Takes indices of any shape and an integer dtype; returns their vectors, `[.., size]`. An index out of range is
    /// an error when a value is read.
    ///
    /// # Panics
    /// If the dtype is not an integer.
    #[track_caller]
    pub fn forward(&self, index: &Tensor) -> Tensor {
        let vectors = self.weight.embedding(index);
        match self.padding {
            Some(padding) => index.eq(padding as i64).unsqueeze(-1).where_(leaf::detached(&vectors), vectors),
            None => vectors,
        }
    }
}
