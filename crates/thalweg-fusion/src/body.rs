//! From a map kernel of a plan to its body and geometry: every operation in it is written down under the index map
//! through which it is needed, and movement disappears into the accesses.

use crate::instance::{Part, ScalarArg};
use crate::movement::{Path, Step, is_in_order, layout};
use crate::partition::arguments;
use crate::pieces;
use crate::scalars::ScalarClasses;
use crate::segment::{Indexed, ValueId};
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_ir::{Arg, DType, ElementOp, MAX_RANK, Op, Scalar, Shape, View};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, BodyBuilder, Geometry, IndexMap, Kernel, MapGeometry, Node, NodeId,
    random::random_node, resolve,
};

/// A map kernel with sizes.
pub(crate) struct MapKernel {
    pub kernel: Kernel,
    pub geometry: Geometry,
    /// The values it reads, in the order of its operands; what it writes follows.
    pub reads: Vec<ValueId>,
    pub scalars: Vec<ScalarArg>,
    pub in_place: Vec<(usize, usize)>,
    pub bytes_read: usize,
}

struct Writer<'a> {
    ix: &'a Indexed<'a>,
    domain: Shape,
    stores: &'a [usize],
    stored: &'a dyn Fn(usize) -> bool,
    classes: &'a ScalarClasses,
    builder: BodyBuilder,
    /// The node of an operation under an index map from the domain.
    done: HashMap<(usize, IndexMap), NodeId>,
    /// The access to a value (or to an index space without one) under a map.
    accesses: HashMap<(Option<ValueId>, IndexMap), u16>,
    maps: Vec<IndexMap>,
    sources: Vec<Option<ValueId>>,
    reads: Vec<ValueId>,
    scalars: Vec<ScalarArg>,
}

/// Writes the kernel that stores these operations over the domain of one of them; `None` where one of them would be read at
/// other points than it is computed at.
pub(crate) fn build_map(
    ix: &Indexed<'_>,
    domain: usize,
    stores: &[usize],
    stored: &dyn Fn(usize) -> bool,
    classes: &ScalarClasses,
) -> Option<MapKernel> {
    let shape = ix.seg.shapes[domain];
    let mut w = Writer {
        ix,
        domain: shape,
        stores,
        stored,
        classes,
        builder: BodyBuilder::new(ix.seg.mode.strict),
        done: HashMap::new(),
        accesses: HashMap::new(),
        maps: vec![],
        sources: vec![],
        reads: vec![],
        scalars: vec![],
    };
    let mut values = Vec::with_capacity(stores.len());
    for &s in stores {
        let own = ix.seg.shapes[s];
        if own.numel() != shape.numel() {
            return None;
        }
        let path = if own == shape { Path::identity() } else { Path::identity().after(Step::Reshape(shape)) };
        values.push(w.value(s, path)?);
    }
    // Operands that are written follow those that are read.
    for (n, (&s, node)) in stores.iter().zip(values).enumerate() {
        let operand = Some((w.reads.len() + n) as u16);
        let access = w.builder.access(Access {
            operand,
            dtype: ix.seg.ops[s].dtype,
            class: AccessClass::Contiguous,
            per_row: false,
        });
        w.maps.push(IndexMap::new(View::contiguous(shape)));
        w.sources.push(Some(ValueId::Op(s)));
        w.builder.store(node, access);
    }
    Some(w.finish())
}

impl Writer<'_> {
    /// The node of operation `root` under `path`. Iterative, since a chain may be as long as a segment.
    fn value(&mut self, root: usize, path: Path) -> Option<NodeId> {
        let mut stack = vec![(root, path, false)];
        let mut last = None;
        while let Some((i, path, expanded)) = stack.pop() {
            let map = path.map_to(self.ix, self.ix.seg.shapes[i]);
            let key = (i, map);
            if let Some(&node) = self.done.get(&key) {
                last = Some(node);
                continue;
            }
            let here = self.stores.contains(&i);
            if (self.stored)(i) && !here {
                let node = self.load(ValueId::Op(i), &path);
                self.done.insert(key, node);
                last = Some(node);
                continue;
            }
            if here && !is_in_order(&key.1, self.domain.numel(), self.ix.seg.shapes[i].numel()) {
                return None;
            }
            let arguments = arguments(self.ix, i, &path);
            if !expanded {
                stack.push((i, path, true));
                for (v, path) in arguments.into_iter().rev() {
                    if let ValueId::Op(a) = v {
                        stack.push((a, path, false));
                    }
                }
                continue;
            }
            let args: Vec<NodeId> = arguments.iter().map(|(v, path)| self.argument(*v, path)).collect();
            let node = self.operation(i, &path, &arguments, &args);
            self.done.insert(key, node);
            last = Some(node);
        }
        last
    }

    /// The node of an argument, which has been written before.
    fn argument(&mut self, v: ValueId, path: &Path) -> NodeId {
        match v {
            ValueId::Input(_) => self.load(v, path),
            ValueId::Op(a) => {
                let map = path.map_to(self.ix, self.ix.seg.shapes[a]);
                self.done[&(a, map)]
            }
        }
    }

    fn operation(&mut self, i: usize, path: &Path, arguments: &[(ValueId, Path)], args: &[NodeId]) -> NodeId {
        let rel = &self.ix.seg.ops[i];
        match rel.op {
            Op::Element(e) => {
                let dtype = self.ix.operand_dtype(i);
                let mut tensors = args.iter();
                let nodes: Vec<NodeId> = rel
                    .args()
                    .enumerate()
                    .map(|(n, a)| match a {
                        Arg::Scalar => self.scalar(i, n, dtype),
                        _ => *tensors.next().expect("one node a tensor"),
                    })
                    .collect();
                self.builder.element(e, &nodes)
            }
            Op::Cast => self.builder.cast(args[0], rel.dtype),
            Op::Full => self.scalar(i, 0, rel.dtype),
            Op::Iota => {
                let index = self.index(path, self.ix.seg.shapes[i]);
                self.builder.cast(index, rel.dtype)
            }
            Op::Random(kind) => {
                let position = self.position_words(path, self.ix.seg.shapes[i]);
                let key = [Part::Low, Part::High].map(|part| self.scalar_part(i, 0, DType::U32, part));
                random_node(&mut self.builder, kind, rel.dtype, position, key)
            }
            Op::Pad => {
                let outside = self.scalar(i, 1, rel.dtype);
                self.inside_or(arguments[0].0, &arguments[0].1, args[0], outside)
            }
            Op::Cat => self.inside_or(arguments[0].0, &arguments[0].1, args[0], args[1]),
            _ if rel.op.is_view() => args[0],
            other => unreachable!("{} runs by itself", other.name()),
        }
    }

    /// `value` where the path from the domain ends inside `v`, else `other`.
    fn inside_or(&mut self, v: ValueId, path: &Path, value: NodeId, other: NodeId) -> NodeId {
        let map = path.map_to(self.ix, self.ix.shape(v));
        if !map.is_masked() {
            return value;
        }
        let access = self.access(None, map);
        let valid = self.builder.node(Node::Valid { access });
        self.builder.element(ElementOp::Where, &[valid, value, other])
    }

    fn load(&mut self, v: ValueId, path: &Path) -> NodeId {
        let map = path.apply(self.ix, IndexMap::new(layout(self.ix, v)));
        let access = self.access(Some(v), map);
        self.builder.node(Node::Load { access })
    }

    /// The row-major index in a space of that shape, as u32 or, where that is too small, i64.
    fn index(&mut self, path: &Path, shape: Shape) -> NodeId {
        let dtype = if shape.numel() as u64 <= 1 << 32 { DType::U32 } else { DType::I64 };
        let access = self.access(None, path.map_to(self.ix, shape));
        self.builder.node(Node::Index { access, dtype })
    }

    fn position_words(&mut self, path: &Path, shape: Shape) -> [NodeId; 2] {
        let index = self.index(path, shape);
        if self.builder.body().dtype(index) == DType::U32 {
            return [index, self.builder.constant(Scalar::Int(0), DType::U32)];
        }
        let shift = self.builder.constant(Scalar::Int(32), DType::I64);
        let high = self.builder.element(ElementOp::Shr, &[index, shift]);
        [self.builder.cast(index, DType::U32), self.builder.cast(high, DType::U32)]
    }

    fn access(&mut self, source: Option<ValueId>, map: IndexMap) -> u16 {
        if let Some(&a) = self.accesses.get(&(source, map.clone())) {
            return a;
        }
        let operand = source.map(|v| {
            let at = self.reads.iter().position(|r| *r == v).unwrap_or_else(|| {
                self.reads.push(v);
                self.reads.len() - 1
            });
            u16::try_from(at).expect("a kernel has at most 65,536 operands")
        });
        let dtype = source.map_or(DType::U32, |v| self.ix.dtype(v));
        // The class follows from the sizes, below.
        let access = self.builder.access(Access { operand, dtype, class: AccessClass::Contiguous, per_row: false });
        self.maps.push(map.clone());
        self.sources.push(source);
        self.accesses.insert((source, map), access);
        access
    }

    fn scalar(&mut self, op: usize, arg: usize, dtype: DType) -> NodeId {
        self.scalar_part(op, arg, dtype, Part::Whole)
    }

    fn scalar_part(&mut self, op: usize, arg: usize, dtype: DType, part: Part) -> NodeId {
        let index = self.classes.representative(self.ix.scalar(op, arg)) as u32;
        let wanted = ScalarArg { index, part };
        let slot = self.scalars.iter().position(|s| *s == wanted).unwrap_or_else(|| {
            self.scalars.push(wanted);
            self.scalars.len() - 1
        });
        let slot = u16::try_from(slot).expect("a kernel has at most 65,536 scalars");
        self.builder.scalar(slot, dtype)
    }

    fn finish(self) -> MapKernel {
        let body = self.builder.finish();
        let (domain, maps) = pieces::renumbered(self.domain, &self.maps);
        let boxes = pieces::boxes(domain, &maps);
        let (kernel, geometry) = if boxes.len() == 1 {
            let (body, geometry) = lay_out(body, domain, &maps);
            (Kernel::Map(body), Geometry::Map(geometry))
        } else {
            let laid: Vec<(Body, MapGeometry)> = boxes.iter().map(|b| piece(&body, &maps, b)).collect();
            let (bodies, geometries) = laid.into_iter().unzip();
            (Kernel::Pieces(bodies), Geometry::Pieces(geometries))
        };
        let distinct: Vec<usize> = maps.iter().map(IndexMap::distinct).collect();
        let points = self.domain.numel();
        let bytes_read = self
            .reads
            .iter()
            .map(|v| {
                let of_value = self.sources.iter().zip(&distinct).filter(|(s, _)| **s == Some(*v));
                let touched: usize = of_value.map(|(_, n)| n).sum();
                touched.min(layout(self.ix, *v).distinct()) * self.ix.dtype(*v).size()
            })
            .sum();
        let mut in_place = vec![];
        for (n, &s) in self.stores.iter().enumerate() {
            let size = self.ix.seg.ops[s].dtype.size();
            for (r, v) in self.reads.iter().enumerate() {
                let mut own = self.sources.iter().zip(&self.maps).filter(|(s, _)| **s == Some(*v));
                let whole = self.ix.shape(*v).numel() == points && self.ix.dtype(*v).size() == size;
                if whole && own.all(|(_, m)| m.as_view().is_some_and(View::is_contiguous)) {
                    in_place.push((self.reads.len() + n, r));
                }
            }
        }
        MapKernel { kernel, geometry, reads: self.reads, scalars: self.scalars, in_place, bytes_read }
    }
}

/// The body on one box of the domain.
fn piece(body: &Body, maps: &[IndexMap], part: &[(usize, usize)]) -> (Body, MapGeometry) {
    let on_box: Vec<Option<IndexMap>> = maps.iter().map(|m| m.on_box(part)).collect();
    // A mask further down is still asked point by point.
    let inside: Vec<Option<bool>> = on_box
        .iter()
        .map(|m| match m {
            None => Some(false),
            Some(m) => (!m.is_masked()).then_some(true),
        })
        .collect();
    let (body, kept) = resolve(body, &inside);
    let maps: Vec<IndexMap> = kept.iter().map(|&a| on_box[a].clone().expect("an access in use is inside")).collect();
    let shape: Vec<usize> = part.iter().map(|p| p.1).collect();
    lay_out(body, Shape::new(&shape), &maps)
}

/// The body with its accesses' classes, and where they go: the domain's dimensions merged as far as they can be.
fn lay_out(mut body: Body, domain: Shape, maps: &[IndexMap]) -> (Body, MapGeometry) {
    let writes: Vec<bool> = (0..maps.len()).map(|a| body.stores.iter().any(|s| s.access as usize == a)).collect();
    let (extents, strides) = collapse(domain, maps, &writes);
    let mut shared: HashMap<&IndexMap, Arc<IndexMap>> = HashMap::new();
    let mut accesses = Vec::with_capacity(maps.len());
    for ((access, map), strides) in body.accesses.iter_mut().zip(maps).zip(strides) {
        let (base, map_given) = match map.as_view() {
            Some(view) => (view.offset, None),
            None => (0, Some(shared.entry(map).or_insert_with(|| Arc::new(map.clone())).clone())),
        };
        access.class = match strides {
            None => AccessClass::Mapped,
            Some(s) => match s[extents.len() - 1] {
                1 => AccessClass::Contiguous,
                0 => AccessClass::Uniform,
                _ => AccessClass::Strided,
            },
        };
        let reach = access.operand.and_then(|_| map.reach());
        accesses.push(AccessGeometry {
            base,
            strides: strides.unwrap_or_default(),
            map: map_given,
            reach,
            distinct: map.distinct(),
        });
    }
    (body, MapGeometry { extents, accesses })
}

/// The domain with neighbouring dimensions merged wherever every strided access runs on from one into the next, and the
/// strides of each map over it (`None` where a map is no strided view).
fn collapse(domain: Shape, maps: &[IndexMap], writes: &[bool]) -> (Vec<usize>, Vec<Option<[isize; MAX_RANK]>>) {
    let views: Vec<Option<&View>> = maps.iter().map(IndexMap::as_view).collect();
    let mut dims: Vec<usize> = vec![];
    // For each merged dimension the innermost domain dimension in it, whose strides it has.
    let mut inner: Vec<usize> = vec![];
    for (i, &d) in domain.iter().enumerate() {
        if d == 1 {
            continue;
        }
        let runs_on = inner
            .last()
            .is_some_and(|&outer| views.iter().flatten().all(|v| v.strides()[outer] == v.strides()[i] * d as isize));
        if runs_on {
            *dims.last_mut().expect("a dimension to merge with") *= d;
            *inner.last_mut().expect("a dimension to merge with") = i;
        } else {
            dims.push(d);
            inner.push(i);
        }
    }
    // What is written runs on from element to element in the innermost dimension; on a box a single column wide it takes a dimension of one.
    let gaps = |at: usize| views.iter().zip(writes).any(|(v, w)| *w && v.is_some_and(|v| v.strides()[at] != 1));
    let alone = inner.last().is_none_or(|&at| gaps(at));
    let strides = views
        .iter()
        .map(|v| {
            v.map(|v| {
                let mut s = [0; MAX_RANK];
                for (at, &i) in inner.iter().enumerate() {
                    s[at] = v.strides()[i];
                }
                if alone {
                    s[inner.len()] = 1;
                }
                s
            })
        })
        .collect();
    if alone {
        dims.push(1);
    }
    (dims, strides)
}
