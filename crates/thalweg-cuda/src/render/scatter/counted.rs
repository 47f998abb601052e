//! Sums of integers in few places.
//!
//! In: what computes an index for each point, and what is added there: one number for all points, or an element for
//! each. Out: a launch in which every block has a table of all places in shared memory, counts its points in it, and adds
//! the table to the result at the end. Of one number it counts how often, and multiplies. Where places are few, a block has
//! several tables, so that fewer threads meet at one number; those of a place lie side by side, for threads that do.
//!
//! Always true: sums of integers wrap, so they are the same in any order.

use crate::render::map;
use crate::render::place::index_type;
use crate::render::types::stored;
use thalweg_gpu::class::counted::{Added, BLOCK, CountedClass, CountedSlots};
use thalweg_gpu::class::map::MapSlots;
use thalweg_kernel::Body;

/// The source of a launch, with one function, `scatter`.
pub fn source(body: &Body, class: &CountedClass) -> String {
    let slots = MapSlots::new(&class.map, body);
    let own = CountedSlots::new(&slots);
    let (t, s) = (index_type(class.map.space.wide), stored(class.dtype));
    // A number of 64 bits is two halves, the lower ones in a half of the room of their own: there are no sums of 64 bits in
    // shared memory.
    let wide = class.size() == 8;
    let add = match class.added {
        Added::Same => "atomicAdd(own + (u32)place * tables, 1u);".into(),
        Added::Element(n) if wide => format!(
            "const u64 more = (u64)n{}; const u32 low = (u32)more, before = atomicAdd(own + (u32)place * tables, low); const u32 high = (u32)(more >> 32) + (before + low < low ? 1 : 0); if (high) atomicAdd(own + (places + (u32)place) * tables, high);",
            n.0
        ),
        Added::Element(n) => format!("atomicAdd(own + (u32)place * tables, (u32)n{});", n.0),
    };
    let lane = format!(
        "        const i64 place = n{}; if ((u64)place < places) {{ {add} }} else *fault = 1;\n",
        class.index.0
    );
    let words = if wide { "2 * places" } else { "places" };
    let sum = if wide {
        "u64 sum = 0;\n    for (u32 k = 0; k < tables; k++) sum += (u64)table[i * tables + k] + ((u64)table[(places + i) * tables + k] << 32);"
    } else {
        "u32 sum = 0;\n    for (u32 k = 0; k < tables; k++) sum += table[i * tables + k];"
    };
    let value = match class.added {
        Added::Same => format!(" * (Sum)load1((const {s} *)a.w[{}])", own.value),
        Added::Element(_) => String::new(),
    };
    let unsigned = if class.dtype.size() == 8 { "u64" } else { "u32" };
    format!(
        r#"
typedef {unsigned} Sum;
extern "C" __global__ void __launch_bounds__({BLOCK}) scatter(THALWEG_PARAMETER({end})) {{
  begin();
  THALWEG_SHARED(room);
  u32 *const table = (u32 *)room;
  const u32 places = (u32)a.w[{places}], tables = (u32)a.w[{tables}];
  for (u32 i = threadIdx.x; i < {words} * tables; i += {BLOCK}) table[i] = 0;
  __syncthreads();
  u32 *const own = table + (threadIdx.x & tables - 1);
  u32 *const fault = (u32 *)a.w[{fault}];
{declared}  const {t} n = ({t})a.w[0];
  for ({t} first = ({t})blockIdx.x * {each} + threadIdx.x; first < n; first += ({t})gridDim.x * {each}) {{
{vectors}  }}
  __syncthreads();
  for (u32 i = threadIdx.x; i < places; i += {BLOCK}) {{
    {sum}
    if (sum) atomicAdd((Sum *)a.w[{to}] + (i64)i * (i64)a.w[{step}], (Sum)sum{value});
  }}
}}
"#,
        end = own.end,
        places = own.places,
        tables = own.tables,
        fault = slots.fault,
        to = own.to,
        step = own.step,
        declared = map::declared(body, &class.map, &slots),
        each = BLOCK * class.map.vectors as u32,
        vectors = map::vectors(body, &class.map, &slots, BLOCK, &lane),
    )
}
