//! Kernel arguments of generic kernels (interpreters of bytecode). Constants and instructions of the launch follow
//! them.

use crate::params::{Address, FaultAddress, I64, Scalar, each, flat, params};
use crate::space::{SpaceClass, SpaceParams};

params! {
    /// Kernel arguments of a generic kernel. `partials` is the number of partial results, `scalars` that of scalars.
    /// The interpreter (`generic.cuh`) reads the first eight by their argument indices.
    pub struct GenericParams(domain: &SpaceClass, partials: usize, scalars: usize) filled by GenericArguments {
        /// Number of rows.
        rows: I64,
        /// Number of points of a row.
        points: I64,
        /// Number of chunks of a row.
        chunks: I64,
        /// Number of points of a chunk.
        chunk_points: I64,
        /// Division of rows among threads, and numbers of dimensions, packed.
        shape: I64,
        /// Kernel-argument index of the first instruction.
        begin: I64,
        /// Address of the fault slot.
        fault: FaultAddress,
        /// Kernel-argument index of the size of the domain's first dimension.
        first_dim: I64,
        /// Descriptor of each access: index of its first argument, addressing mode and dtype, packed.
        descriptors: Vec<I64> = each(domain.addressing.len(), I64::declare),
        /// Arguments of domain and accesses.
        space: SpaceParams = flat(|layout| SpaceParams::declare(layout, domain)),
        /// Addresses of the partial results that the launch stores, one for each fold.
        stores: Vec<Address> = each(partials, Address::declare),
        /// Scalars of the body.
        numbers: Vec<Scalar> = each(scalars, Scalar::declare),
    }
}

#[cfg(test)]
mod tests {
    use super::GenericParams;
    use crate::space::SpaceClass;

    #[test]
    fn the_interpreter_reads_these_words() {
        let domain = SpaceClass { wide: false, kept: 0, row: 2, lanes: 1, across: false, addressing: vec![] };
        let (_, layout) = GenericParams::new(&domain, 0, 0);
        let names: Vec<&str> = layout.slots().iter().map(|slot| slot.name()).collect();
        let head =
            ["rows", "points", "chunks", "chunk_points", "shape", "begin", "fault", "first_dim", "dims[0]", "dims[1]"];
        assert_eq!(names, head);
        assert_eq!(layout.slots()[8].word(), 8);
    }
}
