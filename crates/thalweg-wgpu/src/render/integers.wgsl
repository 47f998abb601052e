// Functions of the integer type T. They wrap; division by zero gives 0.

fn div_T(x: T, y: T) -> T {
  let overflows = SIGNED & equal_T(y, T(0) - T(1));
  let q = x / select(y, T(1), equal_T(y, T(0)) | overflows);
  return select(select(q, T(0) - x, overflows), T(0), equal_T(y, T(0)));
}

// With the sign of the divisor.
fn rem_T(x: T, y: T) -> T {
  let is_zero = equal_T(y, T(0)) | (SIGNED & equal_T(y, T(0) - T(1)));
  let r = x - (x / select(y, T(1), is_zero)) * y;
  let signed = select(r, r + y, !equal_T(r, T(0)) & (less_T(r, T(0)) != less_T(y, T(0))));
  return select(signed, T(0), is_zero);
}

fn floor_T(x: T, y: T) -> T {
  let overflows = SIGNED & equal_T(y, T(0) - T(1));
  let q = x / select(y, T(1), equal_T(y, T(0)) | overflows);
  let floor = select(q, q - T(1), !equal_T(q * y, x) & (less_T(x, T(0)) != less_T(y, T(0))));
  return select(select(floor, T(0) - x, overflows), T(0), equal_T(y, T(0)));
}

fn pow_T(x: T, y: T) -> T {
  if less_T(y, T(0)) {
    let odd = equal_T(y & T(1), T(1));
    let of_minus_one = select(T(1), T(0) - T(1), odd);
    return select(select(T(0), of_minus_one, equal_T(x, T(0) - T(1))), T(1), equal_T(x, T(1)));
  }
  var base = x;
  var exponent = y;
  var out = T(1);
  while less_T(T(0), exponent) {
    if equal_T(exponent & T(1), T(1)) { out = out * base; }
    base = base * base;
    exponent = exponent >> 1u;
  }
  return out;
}

fn magnitude_T(x: T) -> T { return select(x, T(0) - x, less_T(x, T(0))); }

fn sign_T(x: T) -> T { return select(select(T(0), T(0) - T(1), less_T(x, T(0))), T(1), less_T(T(0), x)); }

// By n bits of a type of `width` bits. Without branches, of which random numbers would have hundreds.
fn shl_T(x: T, n: T, width: u32) -> T {
  let inside = !less_T(n, T(0)) & less_T(n, T(width));
  return select(T(0), x << (u32(n) & LAST), inside);
}

fn shr_T(x: T, n: T, width: u32) -> T {
  let inside = !less_T(n, T(0)) & less_T(n, T(width));
  return select(select(T(0), T(0) - T(1), less_T(x, T(0))), x >> (u32(n) & LAST), inside);
}

fn larger_T(x: T, y: T) -> T { return select(y, x, less_T(y, x)); }

fn smaller_T(x: T, y: T) -> T { return select(y, x, less_T(x, y)); }
