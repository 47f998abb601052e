// Functions of the integer type T. They wrap; division by zero gives 0.

fn div_T(x: T, y: T) -> T {
  if y == T(0) { return T(0); }
  if SIGNED && y == T(0) - T(1) { return T(0) - x; }
  return x / y;
}

// With the sign of the divisor.
fn rem_T(x: T, y: T) -> T {
  if y == T(0) || (SIGNED && y == T(0) - T(1)) { return T(0); }
  let r = x - (x / y) * y;
  return select(r, r + y, r != T(0) && (r < T(0)) != (y < T(0)));
}

fn floor_T(x: T, y: T) -> T {
  if y == T(0) { return T(0); }
  if SIGNED && y == T(0) - T(1) { return T(0) - x; }
  let q = x / y;
  return select(q, q - T(1), q * y != x && (x < T(0)) != (y < T(0)));
}

fn pow_T(x: T, y: T) -> T {
  if y < T(0) {
    let odd = (y & T(1)) == T(1);
    let of_minus_one = select(T(1), T(0) - T(1), odd);
    return select(select(T(0), of_minus_one, x == T(0) - T(1)), T(1), x == T(1));
  }
  var base = x;
  var exponent = y;
  var out = T(1);
  while exponent > T(0) {
    if (exponent & T(1)) == T(1) { out = out * base; }
    base = base * base;
    exponent = exponent >> 1u;
  }
  return out;
}

fn magnitude_T(x: T) -> T { return select(x, T(0) - x, x < T(0)); }

fn sign_T(x: T) -> T { return select(select(T(0), T(0) - T(1), x < T(0)), T(1), x > T(0)); }

// By n bits of a type of `width` bits.
fn shl_T(x: T, n: T, width: u32) -> T {
  if n < T(0) || n >= T(width) { return T(0); }
  return x << u32(n);
}

fn shr_T(x: T, n: T, width: u32) -> T {
  if n < T(0) || n >= T(width) { return select(T(0), T(0) - T(1), x < T(0)); }
  return x >> u32(n);
}

fn larger_T(x: T, y: T) -> T { return select(y, x, x > y); }

fn smaller_T(x: T, y: T) -> T { return select(y, x, x < y); }
