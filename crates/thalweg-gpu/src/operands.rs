//! Kernel arguments of bodies: domain, addresses of operands, scalars; and sizes that operands must have.

use crate::body::divisors;
use crate::ir::Slot;
use crate::params::{RuntimeArgument, Scalar, each, flat, params};
use crate::space::{Space, SpaceArguments, SpaceClass, SpaceParams};
use thalweg_ir::DType;
use thalweg_kernel::{AccessGeometry, Body};

/// Operand number of the first scratch region; regions follow the operands.
pub const SCRATCH: u16 = 0x8000;

params! {
    /// Kernel arguments of a body.
    pub struct BodyParams(domain: &SpaceClass, body: &Body) filled by BodyArguments {
        /// Kernel arguments of the domain and its accesses.
        space: SpaceParams = flat(|layout| SpaceParams::declare(layout, domain)),
        /// Scalar arguments of the body.
        scalars: Vec<Scalar> = each(body.scalars as usize, Scalar::declare),
        /// Reciprocals of the scalars that the body divides by ([`divisors`]).
        reciprocals: Vec<Scalar> = each(divisors(body).len(), Scalar::declare),
    }
}

impl BodyParams {
    /// Kernel argument with a scalar.
    pub fn scalar(&self, scalar: u16) -> Slot {
        self.scalars[scalar as usize].slot()
    }

    /// Kernel argument with the reciprocal of a scalar; `None` where the body does not divide by it.
    pub fn reciprocal(&self, body: &Body, scalar: u16) -> Option<Slot> {
        let at = divisors(body).iter().position(|d| d.0 == scalar)?;
        Some(self.reciprocals[at].slot())
    }
}

impl BodyArguments {
    /// Arguments of a body whose operands and scalars are those of the launch.
    pub fn new(body: &Body, space: &Space) -> BodyArguments {
        let space = space.arguments(&body.accesses, &|operand, offset| Some(address(operand, offset)));
        BodyArguments::with(body, space, 0)
    }

    /// Arguments of a body in this domain, whose scalars are numbered from `first` on.
    pub fn with(body: &Body, space: SpaceArguments, first: u16) -> BodyArguments {
        let scalars = (0..body.scalars).map(|s| RuntimeArgument::Scalar(first + s)).collect();
        let reciprocals = reciprocals(body, first);
        BodyArguments { space, scalars, reciprocals }
    }
}

/// Address at an offset in bytes of an operand, or of a region of scratch memory ([`SCRATCH`]).
pub fn address(operand: u16, offset: i64) -> RuntimeArgument {
    match operand.checked_sub(SCRATCH) {
        Some(region) => RuntimeArgument::Scratch(region, offset),
        None => RuntimeArgument::Operand(operand, offset),
    }
}

/// Reciprocals of the scalars that a body divides by, which are numbered from `first` on.
pub fn reciprocals(body: &Body, first: u16) -> Vec<RuntimeArgument> {
    let word = |(slot, dtype): (u16, DType)| RuntimeArgument::Reciprocal(first + slot, dtype == DType::F64);
    divisors(body).into_iter().map(word).collect()
}

/// Adds the minimum sizes of operands in bytes.
pub fn needs(needs: &mut Vec<(u16, usize)>, body: &Body, accesses: &[AccessGeometry]) {
    for (access, at) in body.accesses.iter().zip(accesses) {
        let (Some(operand), Some((_, high))) = (access.operand, at.reach) else { continue };
        let bytes = (high + 1) * access.dtype.size();
        match needs.iter_mut().find(|n| n.0 == operand) {
            Some(n) => n.1 = n.1.max(bytes),
            None => needs.push((operand, bytes)),
        }
    }
}
