//! The public API against NumPy (golden.py writes the golden values), and against the promises of its documentation.

mod along;
mod creation;
mod display;
mod golden;
#[path = "../mistake/mod.rs"]
mod mistake;
mod mistakes;
mod networks;
mod npy;
mod operators;
mod products;
mod random;
mod readings;
mod reported;
#[path = "../selected/cases.rs"]
mod selected;
mod values;
mod windows;

#[test]
fn an_extreme_is_one_of_its_elements() {
    selected::extremes_are_elements();
}

#[test]
fn the_gradient_of_an_extreme_is_shared_out() {
    selected::gradients_of_extremes_are_shared_out();
}

#[test]
fn what_is_selected_does_not_depend_on_fusion() {
    selected::selections_do_not_depend_on_fusion();
}

#[test]
fn equal_products_differ_by_nothing() {
    selected::equal_products_have_no_difference();
}
