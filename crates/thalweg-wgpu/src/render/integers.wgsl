// Functions of the integer type T. They wrap; division by zero gives 0.

fn div_T(x: T, y: T) -> T {
  if equal_T(y, T(0)) { return T(0); }
  if SIGNED && equal_T(y, T(0) - T(1)) { return T(0) - x; }
  return x / y;
}

// With the sign of the divisor.
fn rem_T(x: T, y: T) -> T {
  if equal_T(y, T(0)) || (SIGNED && equal_T(y, T(0) - T(1))) { return T(0); }
  let r = x - (x / y) * y;
  return select(r, r + y, !equal_T(r, T(0)) && less_T(r, T(0)) != less_T(y, T(0)));
}

fn floor_T(x: T, y: T) -> T {
  if equal_T(y, T(0)) { return T(0); }
  if SIGNED && equal_T(y, T(0) - T(1)) { return T(0) - x; }
  let q = x / y;
  return select(q, q - T(1), !equal_T(q * y, x) && less_T(x, T(0)) != less_T(y, T(0)));
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

// By n bits of a type of `width` bits.
fn shl_T(x: T, n: T, width: u32) -> T {
  if less_T(n, T(0)) || !less_T(n, T(width)) { return T(0); }
  return x << u32(n);
}

fn shr_T(x: T, n: T, width: u32) -> T {
  if less_T(n, T(0)) || !less_T(n, T(width)) { return select(T(0), T(0) - T(1), less_T(x, T(0))); }
  return x >> u32(n);
}

fn larger_T(x: T, y: T) -> T { return select(y, x, less_T(y, x)); }

fn smaller_T(x: T, y: T) -> T { return select(y, x, less_T(x, y)); }
