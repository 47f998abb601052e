//! Tests of modules, layers, data loading and training. One program, since each links the whole library.

mod data;
mod golden;
mod modules;
mod small_gpt2;
mod training;
