//! Learning rate schedules: plain functions of the step.

use std::f64::consts::PI;

/// Learning rate as a function of the step, which starts at 0.
///
/// ```
/// use thalweg_nn::optim::Schedule;
/// let rate = Schedule::cosine(1e-3, 1e-5, 1000).warmup(100);
/// assert_eq!((rate.at(49), rate.at(1100)), (0.5e-3, 1e-5));
/// // opt.set_rate(rate.at(step));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[must_use]
pub struct Schedule {
    start: f64,
    shape: Shape,
    warmup: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Shape {
    Constant,
    Linear { end: f64, steps: u64 },
    Cosine { end: f64, steps: u64 },
    Polynomial { end: f64, steps: u64, power: f64 },
    Exponential { factor: f64 },
    Steps { factor: f64, every: u64 },
    InverseRoot { steps: u64 },
}

impl Schedule {
    /// Keeps the rate constant.
    pub fn constant(rate: f64) -> Schedule {
        Schedule { start: rate, shape: Shape::Constant, warmup: 0 }
    }

    /// Changes the rate linearly from one value to another in `steps` steps, then keeps it.
    pub fn linear(start: f64, end: f64, steps: u64) -> Schedule {
        Schedule { start, shape: Shape::Linear { end, steps }, warmup: 0 }
    }

    /// Changes the rate by half a cosine from one value to another in `steps` steps, then keeps it (Loshchilov and
    /// Hutter 2016).
    pub fn cosine(start: f64, end: f64, steps: u64) -> Schedule {
        Schedule { start, shape: Shape::Cosine { end, steps }, warmup: 0 }
    }

    /// Decays the rate polynomially in `steps` steps, then keeps it: `end + (start - end)·(1 - step/steps)^power`.
    pub fn polynomial(start: f64, end: f64, steps: u64, power: f64) -> Schedule {
        Schedule { start, shape: Shape::Polynomial { end, steps, power }, warmup: 0 }
    }

    /// Multiplies the rate by a factor every step.
    pub fn exponential(start: f64, factor: f64) -> Schedule {
        Schedule { start, shape: Shape::Exponential { factor }, warmup: 0 }
    }

    /// Multiplies the rate by a factor every `every` steps.
    ///
    /// # Panics
    /// If `every` is 0.
    #[track_caller]
    pub fn steps(start: f64, factor: f64, every: u64) -> Schedule {
        assert!(every > 0, "Schedule: a factor every 0 steps");
        Schedule { start, shape: Shape::Steps { factor, every }, warmup: 0 }
    }

    /// Keeps the rate constant for `steps` steps; after that it is proportional to `1/√step`.
    pub fn inverse_root(start: f64, steps: u64) -> Schedule {
        Schedule { start, shape: Shape::InverseRoot { steps: steps.max(1) }, warmup: 0 }
    }

    /// Puts `steps` steps of linear warmup to the start rate before the schedule.
    pub fn warmup(self, steps: u64) -> Schedule {
        Schedule { warmup: steps, ..self }
    }

    /// Learning rate of step number `step`.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.start * (step + 1) as f64 / self.warmup as f64;
        }
        let step = step - self.warmup;
        let left = |steps: u64| if step >= steps { 0.0 } else { 1.0 - step as f64 / steps as f64 };
        let between = |end: f64, share: f64| end + (self.start - end) * share;
        match self.shape {
            Shape::Constant => self.start,
            Shape::Linear { end, steps } => between(end, left(steps)),
            Shape::Cosine { end, steps } => between(end, (1.0 - (PI * left(steps)).cos()) / 2.0),
            Shape::Polynomial { end, steps, power } => between(end, left(steps).powf(power)),
            Shape::Exponential { factor } => self.start * factor.powf(step as f64),
            Shape::Steps { factor, every } => self.start * factor.powf((step / every) as f64),
            Shape::InverseRoot { steps } => self.start * (steps as f64 / step.max(steps) as f64).sqrt(),
        }
    }
}

/// Learning rate that falls when a measurement stops improving, as `torch.optim.lr_scheduler.ReduceLROnPlateau`.
///
/// ```
/// use thalweg_nn::optim::Plateau;
/// let mut rate = Plateau::new(0.1).factor(0.5).patience(1);
/// let rates: Vec<f64> = [3.0, 2.0, 2.0, 2.5, 1.0].map(|loss| rate.next(loss)).into();
/// assert_eq!(rates, [0.1, 0.1, 0.1, 0.05, 0.05]);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[must_use]
pub struct Plateau {
    rate: f64,
    factor: f64,
    patience: u64,
    threshold: f64,
    least: f64,
    best: f64,
    bad: u64,
}

impl Plateau {
    /// Makes a schedule that starts at `rate`. Defaults: factor 0.1, patience 10, threshold 0.0001, minimum 0.
    pub fn new(rate: f64) -> Plateau {
        Plateau { rate, factor: 0.1, patience: 10, threshold: 1e-4, least: 0.0, best: f64::INFINITY, bad: 0 }
    }

    /// Sets the factor by which the rate is reduced.
    pub fn factor(self, factor: f64) -> Plateau {
        Plateau { factor, ..self }
    }

    /// Sets the number of measurements without improvement that are tolerated.
    pub fn patience(self, patience: u64) -> Plateau {
        Plateau { patience, ..self }
    }

    /// Sets the minimum relative improvement that counts as one.
    pub fn threshold(self, threshold: f64) -> Plateau {
        Plateau { threshold, ..self }
    }

    /// Sets the minimum rate.
    pub fn least(self, least: f64) -> Plateau {
        Plateau { least, ..self }
    }

    /// Returns the rate after another measurement. Smaller measurements are better.
    pub fn next(&mut self, measured: f64) -> f64 {
        if measured < self.best * (1.0 - self.threshold) || self.best.is_infinite() && measured.is_finite() {
            (self.best, self.bad) = (measured, 0);
        } else {
            self.bad += 1;
        }
        if self.bad > self.patience {
            (self.rate, self.bad) = ((self.rate * self.factor).max(self.least), 0);
        }
        self.rate
    }
}
