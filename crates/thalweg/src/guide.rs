//! Guide in thirteen short chapters, whose programs run as tests, and tables for users of other libraries.
//!
//! 1. [First steps](first_steps)
//! 2. [Shapes and slices](shapes_and_slices)
//! 3. [Writing into parts](writing_into_parts)
//! 4. [Reductions and statistics](statistics)
//! 5. [Indices, masks, sets](indices_and_sets)
//! 6. [Random numbers](random)
//! 7. [Products](products)
//! 8. [Gradients](gradients)
//! 9. [When it runs](when_it_runs)
//! 10. [Errors, devices, files](errors_and_files)
//! 11. [Indexing by tensors](indexing_by_tensors)
//! 12. [Fine-tuning](fine_tuning)
//! 13. [Debugging](debugging)
//!
//! From [NumPy](from_numpy), from [PyTorch](from_pytorch), from [ndarray](from_ndarray); [what differs](differences).

macro_rules! chapters {
    ($($name:ident = $file:literal;)*) => {$(
        #[doc = include_str!(concat!("../../../docs/guide/", $file))]
        pub mod $name {}
    )*};
}

chapters! {
    first_steps = "01-first-steps.md";
    shapes_and_slices = "02-shapes-and-slices.md";
    writing_into_parts = "03-writing-into-parts.md";
    statistics = "04-statistics.md";
    indices_and_sets = "05-indices-and-sets.md";
    random = "06-random.md";
    products = "07-products.md";
    gradients = "08-gradients.md";
    when_it_runs = "09-when-it-runs.md";
    errors_and_files = "10-errors-and-files.md";
    indexing_by_tensors = "11-indexing-by-tensors.md";
    debugging = "13-debugging.md";
    from_numpy = "from-numpy.md";
    from_pytorch = "from-pytorch.md";
    from_ndarray = "from-ndarray.md";
    differences = "differences.md";
}

/// The programs of this chapter need `thalweg-nn`, which runs them as tests.
#[cfg(not(doctest))]
#[doc = include_str!("../../../docs/guide/12-fine-tuning.md")]
pub mod fine_tuning {}
