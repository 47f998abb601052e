//! Recording of a collective as an operation of the stream.
//!
//! In: the collective's signature, its operand, its algorithm over bytes, its derivative. Out: the result, and an entry
//! in the member's queue of collectives that wait.

use crate::World;
use crate::engine::Signature;
use crate::member::{Exchange, Failure};
use crate::reduce::ReduceOp;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use thalweg::communication::{Combine, Transfer};
use thalweg::{Backward, DType, HostOp, Shape, Tensor, set_default_device};

/// Line of the program that a collective belongs to.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    Call(&'static Location<'static>),
    /// Backward pass of the collective that was called there.
    Backward(&'static Location<'static>),
}

impl Origin {
    #[track_caller]
    pub fn here() -> Origin {
        Origin::Call(Location::caller())
    }

    pub fn backward(self) -> Origin {
        let (Origin::Call(at) | Origin::Backward(at)) = self;
        Origin::Backward(at)
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Call(at) => write!(f, "{at}"),
            Origin::Backward(at) => write!(f, "{at}, in its backward pass,"),
        }
    }
}

/// Collective to record.
pub(super) struct Collective<'a> {
    /// Name of the method, for errors.
    pub name: &'static str,
    /// Operation with its options, which all ranks must agree on.
    pub operation: String,
    /// Dtype and shape that all ranks must agree on.
    pub agreed: String,
    /// Whether all ranks take part, so that they count it.
    pub is_joint: bool,
    pub origin: Origin,
    pub operand: Option<&'a Tensor>,
    pub result: (Shape, DType),
    /// The collective as a transfer between devices, where a library has it.
    pub transfer: Option<Transfer>,
    /// Whether ranks may expect other numbers of elements than they are sent.
    pub is_ragged: bool,
}

/// Derivative of a collective: the gradient of its operand.
pub(super) type Rule = Box<dyn Fn(&World, Backward<Tensor, Tensor>) -> Tensor + Send + Sync>;

impl World {
    /// Whether collectives of a tensor run on the ranks' devices.
    pub(super) fn is_on_device(&self, x: &Tensor) -> bool {
        self.group.is_on_devices && x.device() == self.device() && x.numel() > 0
    }

    /// The combination of elements by the library of the devices; `None` if it has none with the same meaning.
    pub(super) fn combination(&self, op: ReduceOp, dtype: DType) -> Option<Combine> {
        let combine = match op {
            ReduceOp::Sum => Combine::Sum,
            ReduceOp::Mean => Combine::Mean,
            ReduceOp::Product => Combine::Product,
            // NCCL's extremes lose NaN.
            ReduceOp::Max | ReduceOp::Min if dtype.is_float() => return None,
            ReduceOp::Max => Combine::Max,
            ReduceOp::Min => Combine::Min,
        };
        let library = self.member.library().filter(|_| self.group.is_on_devices)?;
        library.combines(dtype).then_some(combine)
    }

    /// Records a collective. `run` writes the bytes of the result.
    ///
    /// # Panics
    /// If the operand is tracked and there is no rule.
    #[track_caller]
    pub(super) fn record(
        &self,
        collective: Collective<'_>,
        rule: Option<Rule>,
        run: impl Fn(&mut Exchange<'_>, &[u8], &mut [u8]) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Tensor {
        let Collective { name, operation, agreed, is_joint, origin, operand, result, transfer, is_ragged } = collective;
        let transfer = transfer.filter(|_| operand.is_some_and(|x| self.is_on_device(x)));
        let count = if is_joint { self.group.recorded.load(Relaxed) + 1 } else { 0 };
        let signature = Arc::new(Signature {
            world: self.group.id,
            number: count,
            operation,
            operand: if transfer.is_some() { format!("{agreed} on GPUs") } else { agreed },
            at: origin.to_string(),
        });
        let mut pending = self.member.pending();
        let number = pending.next();
        let (member, group, own) = (self.member.clone(), self.group.clone(), signature.clone());
        let op = HostOp::new(
            name,
            move |_: &[Tensor]| [result],
            move |x, y| {
                let done = member.execute(number, &group, &own, |ranks| {
                    let mut outcome = Ok(());
                    y[0].fill(|out| outcome = run(ranks, x.first().map_or(&[], |x| x.bytes()), out));
                    outcome
                });
                done.map_err(|failure| in_origin(failure, origin))
            },
        );
        let op = match transfer {
            None => op,
            Some(transfer) => {
                let (member, group, own) = (self.member.clone(), self.group.clone(), signature.clone());
                let dtype = result.1;
                op.transfer(move |x, y| {
                    let done = member.enqueue(number, &group, &own, (&transfer, dtype, is_ragged), (x[0], y[0]));
                    let wait = done.map_err(|failure| in_origin(failure, origin))?;
                    Ok(Box::new(move || wait().map_err(|failure| in_origin(failure, origin))))
                })
            }
        };
        let member = self.member.clone();
        let op = op.on_failed_operand(move |error| member.operand_failed(number, &signature, error));
        let op = match rule {
            None => op,
            Some(rule) => {
                let world = self.clone();
                op.backward(move |Backward { mut inputs, mut outputs, mut gradients }| {
                    let only = |list: &mut Vec<Tensor>| list.swap_remove(0);
                    let (inputs, outputs) = (only(&mut inputs), only(&mut outputs));
                    (rule(&world, Backward { inputs, outputs, gradients: only(&mut gradients) }),)
                })
            }
        };
        let op = match origin {
            Origin::Call(at) => op.at(at),
            Origin::Backward(_) => op,
        };
        // Not in a closure, which would hide the caller's line.
        let tensor = match operand {
            Some(operand) => op.on(operand),
            None => {
                let default = set_default_device(Some(self.device()));
                let tensor = op.on(&[] as &[Tensor]);
                set_default_device(default);
                tensor
            }
        };
        pending.add(tensor.detach());
        self.group.recorded.fetch_max(count, Relaxed);
        tensor
    }
}

/// Failure as the cause of an error.
fn in_origin(failure: Failure, origin: Origin) -> Box<dyn std::error::Error + Send + Sync> {
    match origin {
        Origin::Call(_) => failure.into(),
        // The error's own line is that of the derivative.
        Origin::Backward(at) => format!("{failure} (in the backward pass of {at})").into(),
    }
}
