//! Data-parallel training: each rank computes the gradients of its part of a batch, and all take the same step.

use crate::buckets::{self, BucketCollective};
use crate::collectives::Origin;
use crate::{ReduceOp, World};
use std::collections::HashMap;
use std::panic::Location;
use thalweg::{Device, Error, Gradients, Tensor, TensorId, with_strict};
use thalweg_nn::optim::{self, Norm, Optimizer};
use thalweg_nn::{Kind, Module, NamePath};

/// Bytes of a bucket unless set, as in PyTorch's `DistributedDataParallel`.
const BUCKET_BYTES: usize = 25 << 20;

/// Keeps the copies of a model on all ranks equal, as `torch.nn.parallel.DistributedDataParallel`.
///
/// Each rank has the whole model and computes gradients on its part of the batch. [`average`](DataParallel::average)
/// replaces them by their mean over ranks, which has the same bits everywhere. [`step`](DataParallel::step) applies an
/// optimizer, so that the models stay equal to the bit.
///
/// ```
/// use thalweg_dist::{DataParallel, World};
/// use thalweg_nn::data::{DataLoader, Rows};
/// use thalweg_nn::optim::AdamW;
/// use thalweg_nn::prelude::*;
///
/// let (x, y) = (Tensor::randn([50, 3]), Tensor::randn([50, 1]));
/// let weights = World::local(2, |world| {
///     let parallel = DataParallel::new(&world);
///     let mut model = Linear::new(3, 1);
///     parallel.broadcast(&mut model)?;
///     let mut optimizer = AdamW::new(1e-2);
///     // Batches of 16, of which each rank gets half; the last one has two samples.
///     let loader = DataLoader::new(Rows::new([x.clone(), y.clone()]), 16).shuffled(7).split(world.size(), world.rank());
///     for batch in loader.epoch(0) {
///         let [x, y] = batch.unwrap();
///         let loss = model.forward(&x).mse_loss(&y, Reduction::Mean);
///         let mut gradients = loss.backward();
///         parallel.average_of(&model, &mut gradients, x.dims()[0]);
///         parallel.clip_norm(&mut gradients, 1.0);
///         parallel.step(&mut optimizer, &mut model, &gradients);
///     }
///     model.weight.to_vec::<f32>()
/// })?;
/// assert_eq!(weights[0], weights[1]);
/// # Ok::<(), Error>(())
/// ```
///
/// # What to do where
/// - **Accumulation**: add the gradients of several batches ([`Gradients::add`]), then average once. Between averages
///   ranks exchange nothing.
/// - **Clipping**: after averaging, by [`clip_norm`](DataParallel::clip_norm); the norm is then the same on all ranks.
/// - **Unequal batches**: [`average_of`](DataParallel::average_of) weights each rank by its number of samples.
/// - **Unused parameters**: a tracked parameter without a gradient counts as zeros, on each rank by itself, and gets
///   the mean. Freeze what no rank trains.
#[derive(Clone, Debug)]
pub struct DataParallel {
    world: World,
    bucket_bytes: usize,
}

impl DataParallel {
    /// Data-parallel training over the ranks of a world, in buckets of 25 MiB.
    pub fn new(world: &World) -> DataParallel {
        DataParallel { world: world.clone(), bucket_bytes: BUCKET_BYTES }
    }

    /// Sets the size of a bucket: gradients are averaged in flat tensors of up to that many bytes. It does not change
    /// the bits of a mean.
    #[must_use]
    pub fn bucket_bytes(self, bytes: usize) -> DataParallel {
        DataParallel { bucket_bytes: bytes, ..self }
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Replaces parameters and buffers by those of rank 0: at the start, and after rank 0 has loaded a checkpoint.
    ///
    /// # Errors
    /// The failure of the world.
    #[track_caller]
    pub fn broadcast(&self, model: &mut dyn Module) -> Result<(), Error> {
        let tensors = Unique::of(model, |kind, _| kind != Kind::Constant);
        let values: Vec<Tensor> = tensors.all.iter().map(Tensor::detach).collect();
        let values = buckets::apply(&self.world, BucketCollective::Broadcast(0), &values, self.bucket_bytes);
        tensors.replace(model, &values);
        self.world.flush()
    }

    /// Replaces the gradients of a model's tracked parameters by their mean over ranks. It runs the backward pass and
    /// waits for the other ranks. If the world fails, the gradients have its error.
    #[track_caller]
    pub fn average(&self, model: &dyn Module, gradients: &mut Gradients) {
        if self.world.size() == 1 {
            return;
        }
        self.reduce(model, gradients, ReduceOp::Mean, |_, own| own);
    }

    /// As [`average`](DataParallel::average), with each rank weighted by the number of samples that its gradients are
    /// the mean of: the result is the gradient of the mean over all samples of all ranks. A rank without samples passes
    /// 0 and any gradients, which are not used.
    #[track_caller]
    pub fn average_of(&self, model: &dyn Module, gradients: &mut Gradients, samples: usize) {
        if self.world.size() == 1 {
            return;
        }
        // The operand has its value already, so this waits for the other ranks and computes nothing.
        let total = match Tensor::try_from_slice(&[samples as f64], [1], Device::cpu()) {
            Ok(count) => self.world.all_reduce(&count, ReduceOp::Sum).item::<f64>(),
            Err(error) => Err(error),
        };
        // A failure of the world is the error of the gradients.
        let weight = samples as f64 / total.unwrap_or(1.0);
        self.reduce(model, gradients, ReduceOp::Sum, |parameter, own| match samples {
            0 => parameter.zeros_like(),
            _ => own * weight,
        });
    }

    /// The gradients of a loss, with those of the model's tracked parameters replaced by their mean over ranks: a
    /// backward pass and [`average`](DataParallel::average) in one.
    ///
    /// On GPUs ([`World::is_on_gpus`]) each bucket is reduced as soon as its last gradient is computed, while the backward
    /// pass goes on. The stream is cut there, so operations of different buckets do not fuse. To accumulate gradients,
    /// call `loss.backward()` for all batches but the last, and add.
    ///
    /// ```
    /// use thalweg_dist::{DataParallel, World};
    /// use thalweg_nn::prelude::*;
    /// let gradients = World::local(2, |world| {
    ///     let parallel = DataParallel::new(&world);
    ///     let mut model = Linear::new(3, 1);
    ///     parallel.broadcast(&mut model)?;
    ///     let loss = model.forward(&Tensor::full([4, 3], world.rank() as f64)).mean(..);
    ///     parallel.backward(&model, &loss)[&model.weight].to_vec::<f32>()
    /// })?;
    /// assert_eq!(gradients, [[0.5; 3], [0.5; 3]]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Panics
    /// As [`Tensor::backward`].
    #[track_caller]
    pub fn backward(&self, model: &dyn Module, loss: &Tensor) -> Gradients {
        if self.world.size() == 1 {
            return loss.backward();
        }
        let mut parameters = Unique::trained(model).all;
        // A backward pass computes the gradients of the last layers first.
        parameters.reverse();
        let buckets = buckets::of(&parameters, self.bucket_bytes);
        let mut bucket_of = vec![0; parameters.len()];
        for (number, bucket) in buckets.iter().enumerate() {
            bucket.iter().for_each(|&at| bucket_of[at] = number);
        }
        let mut missing: Vec<usize> = buckets.iter().map(Vec::len).collect();
        let mut own: Vec<Option<Tensor>> = vec![None; parameters.len()];
        let mut flats: Vec<Tensor> = Vec::with_capacity(buckets.len());
        // Passed on, since a closure hides the caller.
        let origin = Origin::Call(Location::caller());
        let reduce = |bucket: &[usize], own: &[Option<Tensor>]| {
            let gradients = bucket.iter().map(|&at| own[at].as_ref().expect("the bucket is complete"));
            self.world.reduced(&buckets::flat(gradients), ReduceOp::Mean, origin)
        };
        let mut gradients = loss.backward_observed(&parameters, |at, gradient| {
            own[at] = Some(gradient.detach());
            missing[bucket_of[at]] -= 1;
            // Buckets are reduced in their order, which is the same on all ranks.
            while flats.len() < buckets.len() && missing[flats.len()] == 0 {
                flats.push(reduce(&buckets[flats.len()], &own));
                if self.world.is_on_gpus() {
                    self.world.start();
                }
            }
        });
        for (at, parameter) in parameters.iter().enumerate() {
            own[at].get_or_insert_with(|| parameter.detach().zeros_like());
        }
        for bucket in &buckets[flats.len()..] {
            flats.push(reduce(bucket, &own));
        }
        let shapes: Vec<Tensor> = own.into_iter().flatten().collect();
        for (parameter, gradient) in parameters.iter().zip(buckets::split(&shapes, buckets, flats)) {
            gradients.set(parameter, gradient);
        }
        gradients
    }

    /// As [`optim::clip_norm`], with the same bits on all ranks.
    pub fn clip_norm(&self, gradients: &mut Gradients, most: f64) -> Norm {
        with_strict(true, || optim::clip_norm(gradients, most))
    }

    /// As [`Optimizer::step`], with the same bits on all ranks: in [strict](with_strict) arithmetic, because ranks may
    /// run the same step by different plans, which else differ by rounding.
    #[track_caller]
    pub fn step(&self, optimizer: &mut impl Optimizer, model: &mut dyn Module, gradients: &Gradients) {
        with_strict(true, || optimizer.step(model, gradients));
    }

    /// Replaces each gradient by the reduction of what `prepare` makes of it, given the parameter, too.
    #[track_caller]
    fn reduce(
        &self,
        model: &dyn Module,
        gradients: &mut Gradients,
        op: ReduceOp,
        prepare: impl Fn(Tensor, Tensor) -> Tensor,
    ) {
        let mut parameters = Unique::trained(model).all;
        // A backward pass computes the gradients of the last layers first.
        parameters.reverse();
        let own = parameters.iter().map(|parameter| {
            let gradient = gradients.get(parameter).map(Tensor::detach);
            let gradient = gradient.unwrap_or_else(|| parameter.detach().zeros_like());
            prepare(parameter.detach(), gradient)
        });
        let own: Vec<Tensor> = own.collect();
        let reduced = buckets::apply(&self.world, BucketCollective::AllReduce(op), &own, self.bucket_bytes);
        for (parameter, gradient) in parameters.iter().zip(reduced) {
            gradients.set(parameter, gradient);
        }
    }
}

/// Tensors of a model in its order, each once: fields that share a leaf go on sharing it.
pub(crate) struct Unique {
    pub all: Vec<Tensor>,
    positions: HashMap<TensorId, usize>,
}

impl Unique {
    /// The parameters that are trained.
    pub fn trained(model: &dyn Module) -> Unique {
        Unique::of(model, |kind, tensor| kind == Kind::Parameter && tensor.is_tracked())
    }

    /// The tensors that `takes` returns true for.
    pub fn of(model: &dyn Module, takes: impl Fn(Kind, &Tensor) -> bool) -> Unique {
        let mut found = Unique { all: vec![], positions: HashMap::new() };
        model.visit(&mut NamePath::root(), &mut |_, kind, tensor| {
            if takes(kind, tensor) {
                found.positions.entry(tensor.id()).or_insert_with(|| {
                    found.all.push(tensor.clone());
                    found.all.len() - 1
                });
            }
        });
        found
    }

    /// Replaces these tensors in a model by values at the same positions, tracked where they were.
    pub fn replace(&self, model: &mut dyn Module, values: &[Tensor]) {
        let value = |(old, new): (&Tensor, &Tensor)| if old.is_tracked() { new.tracked() } else { new.clone() };
        let values: Vec<Tensor> = self.all.iter().zip(values).map(value).collect();
        model.update(&mut |_, _, tensor| match self.positions.get(&tensor.id()) {
            Some(&at) => values[at].clone(),
            None => tensor.clone(),
        });
    }
}
