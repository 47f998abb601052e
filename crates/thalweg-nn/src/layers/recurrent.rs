//! Recurrent layers: LSTM and GRU.
//!
//! Names and layouts are PyTorch's: `weight_ih_l0` is `[gates·hidden, inputs]`, gates concatenated along dimension 0;
//! layers in order, `_reverse` for the backward direction. Sequences are `[samples, length, size]`, or with
//! `batch_first(false)` `[length, samples, size]`.

use crate::{Kind, Mode, Module, NamePath, Slot, Tensor, init, leaf};

/// Weights of one layer in one direction of an LSTM or GRU.
#[derive(Clone)]
struct Cell {
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Option<(Tensor, Tensor)>,
}

impl Cell {
    /// Tensors of the cell with their names, without layer number.
    fn tensors(&self) -> Vec<(&'static str, &Tensor)> {
        let mut out = vec![("weight_ih", &self.weight_ih), ("weight_hh", &self.weight_hh)];
        if let Some((ih, hh)) = &self.bias {
            out.extend([("bias_ih", ih), ("bias_hh", hh)]);
        }
        out
    }

    fn tensors_mut(&mut self) -> Vec<(&'static str, &mut Tensor)> {
        let mut out = vec![("weight_ih", &mut self.weight_ih), ("weight_hh", &mut self.weight_hh)];
        if let Some((ih, hh)) = &mut self.bias {
            out.extend([("bias_ih", ih), ("bias_hh", hh)]);
        }
        out
    }
}

/// State that LSTM and GRU share: layers of cells, in one direction or two.
#[derive(Clone)]
struct Stack {
    cells: Vec<Cell>,
    inputs: usize,
    hidden: usize,
    gates: usize,
    both: bool,
    dropout: f64,
    /// Axis of the samples: 0, or 1 if time is the first axis. The other of the two is time.
    samples_axis: usize,
    mode: Mode,
}

impl Stack {
    #[track_caller]
    fn new(inputs: usize, hidden: usize, gates: usize) -> Stack {
        let mode = Mode::default();
        Stack { cells: Vec::new(), inputs, hidden, gates, both: false, dropout: 0.0, samples_axis: 0, mode }
            .drawn(1, true)
    }

    fn directions(&self) -> usize {
        if self.both { 2 } else { 1 }
    }

    fn layers(&self) -> usize {
        self.cells.len() / self.directions()
    }

    /// Reinitializes the weights of `layers` layers: uniform with bound `1/√hidden`.
    #[track_caller]
    fn drawn(self, layers: usize, biased: bool) -> Stack {
        let bound = 1.0 / (self.hidden.max(1) as f64).sqrt();
        let (rows, directions) = (self.gates * self.hidden, self.directions());
        let draw = |shape: &[usize]| leaf::new(init::uniform(shape.to_vec(), -bound, bound));
        let cell = |layer: usize| {
            let inputs = if layer == 0 { self.inputs } else { self.hidden * directions };
            let (weight_ih, weight_hh) = (draw(&[rows, inputs]), draw(&[rows, self.hidden]));
            Cell { weight_ih, weight_hh, bias: biased.then(|| (draw(&[rows]), draw(&[rows]))) }
        };
        let cells = (0..layers * directions).map(|i| cell(i / directions)).collect();
        Stack { cells, ..self }
    }

    fn biased(&self) -> bool {
        self.cells.first().is_none_or(|c| c.bias.is_some())
    }

    fn name(&self, part: &str, cell: usize) -> String {
        let (layer, back) = (cell / self.directions(), cell % self.directions() == 1);
        format!("{part}_l{layer}{}", if back { "_reverse" } else { "" })
    }

    /// Runs a sequence through all layers. `step` gets the input and recurrent contributions to the gates, and the
    /// state; it returns the next state, output first. Returns the outputs of the last layer and the last states of all
    /// cells.
    #[track_caller]
    fn run<const S: usize>(
        &self,
        name: &str,
        x: &Tensor,
        start: Option<[&Tensor; S]>,
        step: impl Fn(&Tensor, &Tensor, &[Tensor; S]) -> [Tensor; S],
    ) -> (Tensor, [Tensor; S]) {
        let time_axis = 1 - self.samples_axis;
        if x.rank() != 3 || x.dims()[2] != self.inputs || x.dims()[time_axis] == 0 {
            let axes = ["samples, length", "length, samples"][self.samples_axis];
            panic!("{name}: takes [{axes}, {}] of length 1 or more, not shape {}", self.inputs, x.shape());
        }
        let (samples, length) = (x.dims()[self.samples_axis], x.dims()[time_axis]);
        let shape = [self.cells.len(), samples, self.hidden];
        for state in start.iter().flatten() {
            if state.dims() != shape {
                panic!("{name}: takes a state of shape {shape:?} for {}, not {}", x.shape(), state.shape());
            }
        }
        let mut x = x.clone();
        let mut last: [Vec<Tensor>; S] = std::array::from_fn(|_| Vec::new());
        for layer in 0..self.layers() {
            let mut outputs = Vec::new();
            for direction in 0..self.directions() {
                let at = layer * self.directions() + direction;
                let cell = &self.cells[at];
                let (bias_ih, bias_hh) = cell.bias.as_ref().map(|(ih, hh)| (ih, hh)).unzip();
                // One GEMM computes the input contributions of all steps.
                let inputs = x.linear(&cell.weight_ih, bias_ih);
                let zeros = || Tensor::zeros_with([samples, self.hidden], (x.dtype(), x.device()));
                let mut state: [Tensor; S] = match start {
                    Some(start) => start.map(|s| s.index_axis(0, at)),
                    None => std::array::from_fn(|_| zeros()),
                };
                let mut steps = Vec::with_capacity(length);
                for i in 0..length {
                    let t = if direction == 0 { i } else { length - 1 - i };
                    let fed = inputs.index_axis(time_axis, t);
                    let back = state[0].linear(&cell.weight_hh, bias_hh);
                    state = step(&fed, &back, &state);
                    steps.push(state[0].clone());
                }
                if direction == 1 {
                    steps.reverse();
                }
                outputs.push(Tensor::stack(&steps, time_axis));
                last.iter_mut().zip(state).for_each(|(all, one)| all.push(one));
            }
            x = if outputs.len() == 1 { outputs.remove(0) } else { Tensor::cat(&outputs, 2) };
            if self.dropout > 0.0 && self.mode.is_training() && layer + 1 < self.layers() {
                x = x.dropout(self.dropout);
            }
        }
        (x, last.map(|states| Tensor::stack(&states, 0)))
    }

    /// Columns of gate number `gate` in rows `[.., gates·hidden]`.
    fn gate(&self, x: &Tensor, gate: usize) -> Tensor {
        x.narrow(-1, gate * self.hidden, self.hidden)
    }
}

impl Module for Stack {
    fn visit(&self, path: &mut NamePath, f: &mut dyn FnMut(&str, Kind, &Tensor)) {
        for (at, cell) in self.cells.iter().enumerate() {
            for (part, tensor) in cell.tensors() {
                path.part(&self.name(part, at), |path| f(path.as_str(), Kind::Parameter, tensor));
            }
        }
    }
    fn visit_mut(&mut self, path: &mut NamePath, f: &mut dyn FnMut(&str, Slot<'_>)) {
        let mut cells = std::mem::take(&mut self.cells);
        let count = cells.len();
        for (at, cell) in cells.iter_mut().enumerate() {
            for (part, tensor) in cell.tensors_mut() {
                path.part(&self.name(part, at), |path| f(path.as_str(), Slot::Tensor(Kind::Parameter, tensor)));
            }
        }
        debug_assert_eq!(cells.len(), count);
        self.cells = cells;
        self.mode.visit_mut(path, f);
    }
}

/// Options shared by LSTM and GRU.
macro_rules! options {
    ($name:ident) => {
        impl $name {
            /// Sets the number of layers; each takes the outputs of the previous one. Weights are reinitialized.
            #[must_use]
            #[track_caller]
            pub fn layers(self, layers: usize) -> $name {
                let biased = self.stack.biased();
                $name { stack: self.stack.drawn(layers, biased) }
            }

            /// Runs in both directions; outputs are `[.., 2·hidden]`. Weights are reinitialized.
            #[must_use]
            #[track_caller]
            pub fn bidirectional(self) -> $name {
                let (layers, biased) = (self.stack.layers(), self.stack.biased());
                $name { stack: Stack { both: true, ..self.stack }.drawn(layers, biased) }
            }

            /// Removes all biases.
            #[must_use]
            pub fn without_bias(mut self) -> $name {
                self.stack.cells.iter_mut().for_each(|cell| cell.bias = None);
                self
            }

            /// Sets the order of axes of inputs and outputs: `[samples, length, ..]`, the default here, or, if false,
            /// `[length, samples, ..]`, the default of PyTorch. States are `[layers, samples, hidden]` in both.
            #[must_use]
            pub fn batch_first(self, batch_first: bool) -> $name {
                $name { stack: Stack { samples_axis: if batch_first { 0 } else { 1 }, ..self.stack } }
            }

            /// Sets the probability of dropout between layers in training.
            ///
            /// # Panics
            /// If `p` is not in [0, 1].
            #[must_use]
            #[track_caller]
            pub fn dropout(self, p: f64) -> $name {
                assert!((0.0..=1.0).contains(&p), concat!(stringify!($name), ": {} is no probability"), p);
                $name { stack: Stack { dropout: p, ..self.stack } }
            }
        }
    };
}

/// Long short-term memory (Hochreiter and Schmidhuber 1997), as `torch.nn.LSTM` with `batch_first`
/// ([`batch_first(false)`](Lstm::batch_first) puts time first). The order of gates in its weights is input, forget,
/// cell, output.
///
/// ```
/// use thalweg_nn::prelude::*;
/// let lstm = Lstm::new(3, 5).layers(2);
/// let (y, [h, c]) = lstm.forward(&Tensor::randn([4, 7, 3]), None);
/// assert_eq!((y.dims(), h.dims(), c.dims()), (&[4, 7, 5][..], &[2, 4, 5][..], &[2, 4, 5][..]));
/// ```
#[derive(Module, Clone)]
pub struct Lstm {
    #[module(flatten)]
    stack: Stack,
}

options!(Lstm);

impl Lstm {
    /// Makes one layer in one direction.
    #[track_caller]
    pub fn new(inputs: usize, hidden: usize) -> Lstm {
        Lstm { stack: Stack::new(inputs, hidden, 4) }
    }

    /// Runs a sequence `[samples, length, inputs]` from an initial state, or from zeros. Returns the outputs,
    /// `[samples, length, hidden]`, and the last state: hidden states and cell states, each `[layers, samples, hidden]`
    /// (if bidirectional, two entries per layer).
    ///
    /// # Panics
    /// If shapes do not match or dtypes differ.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<[&Tensor; 2]>) -> (Tensor, [Tensor; 2]) {
        let stack = &self.stack;
        stack.run("Lstm", x, state, |fed, back, [_, cell]| {
            let sum = fed + back;
            let [i, f, g, o] = std::array::from_fn(|gate| stack.gate(&sum, gate));
            let cell = f.sigmoid() * cell + i.sigmoid() * g.tanh();
            [o.sigmoid() * cell.tanh(), cell]
        })
    }
}

/// Gated recurrent unit (Cho et al. 2014), as `torch.nn.GRU` with `batch_first` ([`batch_first(false)`](Gru::batch_first)
/// puts time first). The order of gates in its weights is reset, update, new.
///
/// ```
/// use thalweg_nn::prelude::*;
/// let (y, [h]) = Gru::new(3, 5).bidirectional().forward(&Tensor::randn([4, 7, 3]), None);
/// assert_eq!((y.dims(), h.dims()), (&[4, 7, 10][..], &[2, 4, 5][..]));
/// ```
#[derive(Module, Clone)]
pub struct Gru {
    #[module(flatten)]
    stack: Stack,
}

options!(Gru);

impl Gru {
    /// Makes one layer in one direction.
    #[track_caller]
    pub fn new(inputs: usize, hidden: usize) -> Gru {
        Gru { stack: Stack::new(inputs, hidden, 3) }
    }

    /// Runs a sequence `[samples, length, inputs]` from an initial state, or from zeros. Returns the outputs,
    /// `[samples, length, hidden]`, and the last state, `[layers, samples, hidden]` (if bidirectional, two entries per
    /// layer).
    ///
    /// # Panics
    /// If shapes do not match or dtypes differ.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<[&Tensor; 1]>) -> (Tensor, [Tensor; 1]) {
        let stack = &self.stack;
        stack.run("Gru", x, state, |fed, back, [last]| {
            let [r, z] = [0, 1].map(|gate| (stack.gate(fed, gate) + stack.gate(back, gate)).sigmoid());
            let n = (stack.gate(fed, 2) + r * stack.gate(back, 2)).tanh();
            [&n + z * (last - &n)]
        })
    }
}
