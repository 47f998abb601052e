//! CUDA C++ from kernels.
//!
//! In: a body and the class of a launch. Out: source text, the same for all sizes of the class. Sizes, addresses and
//! scalars are words of the one argument.
//!
//! * `types`, `elements`: dtypes and elementwise operations.
//! * `access`: reading and writing through index maps.
//! * `body`: nodes as statements.
//! * `map`, `rows`, `scan`, `sort`, `contraction`, …: kernels. `generic`: an interpreter of bodies.
//! * `tidy`: how they are laid out.

pub mod access;
pub mod body;
pub mod combined;
pub mod contraction;
pub mod elements;
pub mod foreign;
pub mod generic;
mod looped;
pub mod map;
mod monoid;
pub mod radix;
pub mod rows;
pub mod scan;
pub mod scatter;
pub mod sort;
mod tidy;
pub mod types;

use crate::prelude::PRELUDE;
use combined::CombinedClass;
use contraction::fed::{self, FedClass, FedTile};
use contraction::streamed::{self, StreamedClass};
use contraction::{CONTRACTIONS, FED, Math, Tile, TileClass};
use foreign::ForeignClass;
use generic::Width;
use map::MapClass;
use rows::{RowsClass, SCANNED, Sharing};
use scan::{ScanClass, Way};
use scatter::counted::CountedClass;
use scatter::{ScatterClass, SortClass, SortStep, Way as ScatterWay};
use thalweg_kernel::{Along, Body};
use tidy::tidy;

/// The first line of a source: what the compiler is asked for. Without contraction where the same bits are wanted,
/// fused and unfused (strict bodies) or wherever something is computed twice (repeatable ones).
pub fn options(same_bits: bool) -> &'static str {
    if same_bits { "// options: -fmad=false\n" } else { "// options:\n" }
}

/// The same of what only one chip has.
fn options_of_hopper(same_bits: bool) -> &'static str {
    match same_bits {
        true => "// options: --gpu-architecture=sm_90a -fmad=false\n",
        false => "// options: --gpu-architecture=sm_90a\n",
    }
}

/// The name of the functions of an interpreter.
pub const GENERIC: &str = "generic";

/// What decides a source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum UnitKey {
    /// A map.
    Map(Body, MapClass),
    /// A row kernel, or a stage of one.
    Rows(Body, RowsClass),
    /// A scan of rows in memory.
    Scan(ScanClass),
    /// A fold or scan of rows in memory by a combine of the user's own.
    Combined(CombinedClass),
    /// A contraction, tile by tile.
    Contraction(Box<TileClass>),
    /// The same, whose factors are brought by a thread of its own.
    Fed(Box<FedClass>),
    /// Two products with weights between them.
    Streamed(Box<StreamedClass>),
    /// A scatter.
    Scatter(ScatterClass),
    /// Sums of integers in few places, with what computes the index.
    Counted(Body, CountedClass),
    /// A sort of the indices of one.
    ScatterSort(SortClass),
    /// An operation whose source is the user's.
    Foreign(ForeignClass),
    /// An interpreter.
    Generic(Width),
}

/// What stands in front of row kernels with online passes.
pub const ONLINE: &str = include_str!("online.cuh");

/// What is compiled: options and the prelude, then what follows them here.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Source {
    /// The first line.
    pub options: &'static str,
    /// What comes behind the prelude.
    pub own: String,
}

impl Source {
    /// All of it.
    pub fn text(&self) -> String {
        format!("{}{PRELUDE}{}", self.options, self.own)
    }
}

impl UnitKey {
    /// The name of the function, and the source.
    pub fn source(&self) -> (&'static str, Source) {
        let same_bits = |body: &Body| body.strict || body.repeatable || body.has_loops();
        let (name, exact, own) = match self {
            UnitKey::Map(body, class) => ("map", same_bits(body), map::source(body, class)),
            UnitKey::Rows(body, class) => (class.name(body), same_bits(body), rows::source(body, class)),
            UnitKey::Scan(class) => ("scan", true, scan_source(class)),
            UnitKey::Combined(class) => ("combine", true, combined::source(class)),
            UnitKey::Contraction(class) => {
                let computed = class.bodies().any(same_bits);
                ("contraction", computed, contraction::source(class))
            }
            UnitKey::Fed(class) => ("contraction", same_bits(&class.result.0.body), fed::source(class)),
            UnitKey::Streamed(class) => {
                let computed = class.bodies().any(same_bits);
                ("contraction", computed, streamed::source(class))
            }
            UnitKey::Scatter(class) => ("scatter", true, scatter::source(class)),
            UnitKey::Counted(body, class) => ("scatter", same_bits(body), scatter::counted::source(body, class)),
            UnitKey::ScatterSort(class) => ("scatter", true, scatter::sort_source(class)),
            UnitKey::Foreign(class) => ("foreign", false, foreign::source(class)),
            UnitKey::Generic(width) => (GENERIC, true, generic::source(*width)),
        };
        // The user's own lines stay as they are, and so does what was written by hand.
        let as_is = matches!(self, UnitKey::Foreign(_) | UnitKey::Generic(_));
        let own = if as_is { own } else { tidy(own.trim_start()) };
        let options = if self.is_of_hopper() { options_of_hopper(exact) } else { options(exact) };
        (name, Source { options, own: format!("{}\n// {}\n{own}", self.before(), self.about()) })
    }

    /// Whether it is for one chip only.
    fn is_of_hopper(&self) -> bool {
        match self {
            UnitKey::Contraction(class) => class.math == Math::Warpgroup,
            UnitKey::Fed(_) => true,
            UnitKey::Streamed(class) => class.math == Math::Warpgroup,
            _ => false,
        }
    }

    /// What stands behind the prelude.
    fn before(&self) -> &'static str {
        match self {
            UnitKey::Fed(_) => FED,
            UnitKey::Streamed(class) if class.fed.is_some() => FED,
            UnitKey::Contraction(_) | UnitKey::Streamed(_) => CONTRACTIONS,
            UnitKey::Rows(body, class) if class.has_scans(body) => SCANNED,
            UnitKey::Rows(_, class) if class.online.is_some() => ONLINE,
            _ => "",
        }
    }

    /// What it is, in a line for people.
    fn about(&self) -> String {
        match self {
            UnitKey::Map(_, MapClass { tile: Some(t), vectors, space }) => {
                let [deep, wide] = t.sizes(*vectors);
                format!("Tiles of {deep} times {wide} vectors, {} neighbours each.", space.lanes)
            }
            UnitKey::Map(_, class) => {
                format!("Each point by itself: {} times {} neighbours a thread.", class.vectors, class.space.lanes)
            }
            UnitKey::Rows(_, class) => {
                let part = match class.stage {
                    None => String::new(),
                    Some(s) if s.linked => format!(
                        " Phase {} to the last, several blocks a row, which pass on what comes before.",
                        s.phase
                    ),
                    Some(s) if s.split => format!(" Phase {}, several blocks a row.", s.phase),
                    Some(s) => format!(" Phase {}.", s.phase),
                };
                let how = match class.sharing {
                    Sharing::Held { group, steps, .. } => {
                        format!("Rows along: {group} threads each, {steps} vectors a thread held in registers.")
                    }
                    Sharing::Again { group } if class.online.is_some() => {
                        format!("Rows along: {group} threads each, two passes at once.")
                    }
                    Sharing::Again { group } => format!("Rows along: {group} threads each, read in every pass."),
                    Sharing::Across { wide, deep } => {
                        format!(
                            "Rows side by side: {wide} vectors of them a block, {deep} threads for the points of each."
                        )
                    }
                    Sharing::Ordered => "Rows in order, a warp each.".into(),
                };
                how + &part
            }
            UnitKey::Scan(class) => {
                let how = match class.way {
                    Way::InOrder => "a thread a row",
                    Way::Short => "some threads of a warp a row",
                    Way::Long => "blocks that share a row, or one",
                    Way::Across => "rows side by side",
                    Way::Stretch => "a stretch a block",
                    Way::Merge => "merges of sorted runs",
                    Way::Count => "digits counted",
                    Way::Pass => "moved to where its digit is",
                };
                format!("Scan of rows in memory: {:?} of {}, {how}.", class.op, class.dtype.name())
            }
            UnitKey::Combined(class) => {
                let what = if class.along == Along::Fold { "Fold" } else { "Scan" };
                format!("{what} of rows in memory by a combine of the user's own, a block a row.")
            }
            UnitKey::Foreign(_) => "An operation whose source is the user's.".into(),
            UnitKey::Generic(Width::Narrow) => {
                "Any single operation on values of up to 32 bits, but for functions of floats.".into()
            }
            UnitKey::Generic(Width::Functions) => "Any single operation on floats of up to 32 bits.".into(),
            UnitKey::Generic(Width::Wide) => "Any single operation on integers of 64 bits, too.".into(),
            UnitKey::Generic(Width::Double) => "Any single operation, functions of f64 included.".into(),
            UnitKey::Contraction(class) => {
                let how = match class.math {
                    Math::Narrow => "on tensor cores",
                    Math::Warpgroup => "by warpgroups",
                    Math::Tf32 => "in TF32 on tensor cores",
                    Math::Plain => "on plain cores",
                };
                let Tile { m, n, k, .. } = class.tile;
                format!("Contraction of {} {how}: tiles of {m} times {n}, {k} terms a step.", class.dtype.name())
            }
            UnitKey::Fed(class) => {
                let (FedTile { team, m, n, stages }, name) = (class.tile, class.dtype.name());
                let who = if team == 1 { "two warpgroups" } else { "two pairs of warpgroups" };
                format!("Contraction of {name} by {who} in turns, fed: tiles of {m} times {n}, {stages} steps ahead.")
            }
            UnitKey::Streamed(class) => {
                let (rows, name) = (class.rows(), class.dtype.name());
                format!(
                    "Contraction of {name} with a streamed one inside: {rows} rows, {} keys at a time.",
                    class.block.keys
                )
            }
            UnitKey::Scatter(ScatterClass { way, dtype, .. }) => match way {
                ScatterWay::Copy => "Scatter: the copy of the tensor.".into(),
                ScatterWay::Lines(op) => format!("Scatter: {op:?} of {}, a thread a line.", dtype.name()),
                ScatterWay::Runs(op) => {
                    format!("Scatter: {op:?} of {}, a thread a run of sorted indices.", dtype.name())
                }
                ScatterWay::Clear => "Scatter: no index is known of any element.".into(),
                ScatterWay::Latest => "Scatter: the last index of each element.".into(),
                ScatterWay::Take => format!("Scatter: Set of {}, the value of the last index.", dtype.name()),
                ScatterWay::AtOnce(op) => format!("Scatter: {op:?} of {}, all at once.", dtype.name()),
            },
            UnitKey::Counted(_, CountedClass { dtype, .. }) => {
                format!("Scatter: Add of {}, counted in tables of all places, several a block.", dtype.name())
            }
            UnitKey::ScatterSort(class) => {
                let of = if class.dims.is_some() { "indices" } else { "pairs of place and number" };
                match class.step {
                    SortStep::Count => format!("Sort of the indices of a scatter: digits of {of} counted."),
                    SortStep::Offsets => "Sort of the indices of a scatter: where digits of tiles begin.".into(),
                    SortStep::Move => {
                        format!("Sort of the indices of a scatter: {of} moved to where their digits are.")
                    }
                }
            }
        }
    }
}

/// The source of a scan, or of a launch of a sort.
fn scan_source(class: &ScanClass) -> String {
    match class.way {
        Way::Stretch | Way::Merge => sort::source(class),
        Way::Count | Way::Pass => radix::source(class),
        _ => scan::source(class),
    }
}
