//! Inputs that gradients are requested for: one tensor, tuples, arrays, lists.

use crate::Tensor;

/// Tensors that gradients are requested for: `&Tensor`, a tuple of up to eight, an array, a slice or a `Vec` (by
/// reference). Results have the same form.
///
/// Types that contain tensors, such as models, can implement it.
pub trait Inputs {
    /// Form with an owned tensor for each input: gradients, or the arguments of a function.
    type Each;

    /// Input tensors in order.
    fn tensors(&self) -> Vec<&Tensor>;

    /// Function that puts as many tensors into the form of the inputs.
    fn form(&self) -> Form<Self::Each>;
}

/// Function that puts tensors into a form; see [`Inputs::form`].
pub type Form<E> = Box<dyn Fn(Vec<Tensor>) -> E + Send + Sync>;

/// Takes the next tensor of a list, which has one.
fn next(each: &mut impl Iterator<Item = Tensor>) -> Tensor {
    each.next().expect("there is one for each")
}

impl Inputs for &Tensor {
    type Each = Tensor;

    fn tensors(&self) -> Vec<&Tensor> {
        vec![self]
    }

    fn form(&self) -> Form<Tensor> {
        Box::new(|each| next(&mut each.into_iter()))
    }
}

impl<const N: usize, T: AsRef<Tensor>> Inputs for [T; N] {
    type Each = [Tensor; N];

    fn tensors(&self) -> Vec<&Tensor> {
        self.iter().map(T::as_ref).collect()
    }

    fn form(&self) -> Form<[Tensor; N]> {
        Box::new(|each| {
            let mut each = each.into_iter();
            std::array::from_fn(|_| next(&mut each))
        })
    }
}

impl<const N: usize, T: AsRef<Tensor>> Inputs for &[T; N] {
    type Each = [Tensor; N];

    fn tensors(&self) -> Vec<&Tensor> {
        <[T; N]>::tensors(self)
    }

    fn form(&self) -> Form<[Tensor; N]> {
        <[T; N]>::form(self)
    }
}

impl<T: AsRef<Tensor>> Inputs for &[T] {
    type Each = Vec<Tensor>;

    fn tensors(&self) -> Vec<&Tensor> {
        self.iter().map(T::as_ref).collect()
    }

    fn form(&self) -> Form<Vec<Tensor>> {
        Box::new(|each| each)
    }
}

impl<T: AsRef<Tensor>> Inputs for &Vec<T> {
    type Each = Vec<Tensor>;

    fn tensors(&self) -> Vec<&Tensor> {
        self.iter().map(T::as_ref).collect()
    }

    fn form(&self) -> Form<Vec<Tensor>> {
        Box::new(|each| each)
    }
}

macro_rules! tuples {
    ($($(($t:ident $n:tt))+;)*) => {$(
        impl<$($t: AsRef<Tensor>),+> Inputs for ($($t,)+) {
            type Each = ($(tuples!(tensor $t),)+);

            fn tensors(&self) -> Vec<&Tensor> {
                vec![$(self.$n.as_ref()),+]
            }

            fn form(&self) -> Form<Self::Each> {
                Box::new(|each| {
                    let mut each = each.into_iter();
                    ($(tuples!(next each $t),)+)
                })
            }
        }
    )*};
    (tensor $t:ident) => { Tensor };
    (next $each:ident $t:ident) => { next(&mut $each) };
}
tuples! {
    (A 0);
    (A 0) (B 1);
    (A 0) (B 1) (C 2);
    (A 0) (B 1) (C 2) (D 3);
    (A 0) (B 1) (C 2) (D 3) (E 4);
    (A 0) (B 1) (C 2) (D 3) (E 4) (F 5);
    (A 0) (B 1) (C 2) (D 3) (E 4) (F 5) (G 6);
    (A 0) (B 1) (C 2) (D 3) (E 4) (F 5) (G 6) (H 7);
}
