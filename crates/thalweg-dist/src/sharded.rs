//! Optimizer state divided among ranks: stage 1 of ZeRO (Rajbhandari et al. 2020).

use crate::World;
use crate::buckets::{self, BucketCollective};
use crate::data_parallel::Unique;
use thalweg::{Error, Gradients, Tensor, with_strict};
use thalweg_nn::Module;
use thalweg_nn::optim::Optimizer;

/// Bytes of a bucket of parameters.
const BUCKET_BYTES: usize = 25 << 20;

/// Optimizer whose state is divided among the ranks of a world, as `torch.distributed.optim.ZeroRedundancyOptimizer`.
///
/// Each parameter belongs to one rank, which alone has its state, computes its step, and sends the new value to the
/// others. The memory of the state is divided by the number of ranks, as evenly as whole parameters can be; the steps
/// have the bits of an undivided optimizer's.
///
/// ```
/// use thalweg_dist::{DataParallel, ShardedOptimizer, World};
/// use thalweg_nn::optim::AdamW;
/// use thalweg_nn::prelude::*;
///
/// World::local(2, |world| {
///     let parallel = DataParallel::new(&world);
///     let mut model = Linear::new(3, 1);
///     parallel.broadcast(&mut model)?;
///     let mut optimizer = ShardedOptimizer::new(&world, AdamW::new(1e-2));
///     let loss = model.forward(&Tensor::randn([8, 3])).square().mean(..);
///     let mut gradients = loss.backward();
///     parallel.average(&model, &mut gradients);
///     optimizer.step(&mut model, &gradients)
/// })?;
/// # Ok::<(), Error>(())
/// ```
pub struct ShardedOptimizer<O> {
    world: World,
    optimizer: O,
}

impl<O: Optimizer> ShardedOptimizer<O> {
    /// Divides an optimizer among the ranks of a world.
    pub fn new(world: &World, optimizer: O) -> ShardedOptimizer<O> {
        ShardedOptimizer { world: world.clone(), optimizer }
    }

    /// The optimizer, with the state of this rank's parameters.
    pub fn inner(&self) -> &O {
        &self.optimizer
    }

    /// The optimizer, to be changed: in the same way on all ranks.
    pub fn inner_mut(&mut self) -> &mut O {
        &mut self.optimizer
    }

    /// Updates the parameters of a model by their gradients, which are the same on all ranks
    /// ([`DataParallel::average`](crate::DataParallel::average)).
    ///
    /// # Errors
    /// The failure of the world.
    #[track_caller]
    pub fn step(&mut self, model: &mut dyn Module, gradients: &Gradients) -> Result<(), Error> {
        let parameters = Unique::trained(model);
        let owners = owners(&parameters.all, self.world.size());
        let mut own = gradients.clone();
        for (parameter, &owner) in parameters.all.iter().zip(&owners) {
            if owner != self.world.rank() {
                own.take(parameter);
            }
        }
        with_strict(true, || self.optimizer.step(model, &own));
        // In the order of the model, as before the step.
        let parameters = Unique::trained(model);
        let mut values: Vec<Tensor> = parameters.all.iter().map(Tensor::detach).collect();
        for root in 0..self.world.size() {
            let belongs = |at: &usize| owners[*at] == root;
            let positions: Vec<usize> = (0..values.len()).filter(belongs).collect();
            let sent: Vec<Tensor> = positions.iter().map(|&at| values[at].clone()).collect();
            let received = buckets::apply(&self.world, BucketCollective::Broadcast(root), &sent, BUCKET_BYTES);
            for (at, value) in positions.into_iter().zip(received) {
                values[at] = value;
            }
        }
        parameters.replace(model, &values);
        self.world.flush()
    }
}

/// Rank that each parameter belongs to: in order, the one with the fewest elements so far.
fn owners(parameters: &[Tensor], size: usize) -> Vec<usize> {
    let mut elements = vec![0; size];
    let mut owner = |parameter: &Tensor| {
        let least = (0..size).min_by_key(|&rank| elements[rank]).expect("a world has a rank");
        elements[least] += parameter.numel();
        least
    };
    parameters.iter().map(&mut owner).collect()
}
