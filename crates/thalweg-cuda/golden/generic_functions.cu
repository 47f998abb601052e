// options: -fmad=false

// Any single operation on floats of up to 32 bits.
typedef u32 WORD;
constexpr int LANES = 4, THREADS = 128;
#define WORDS 500
constexpr u32 LOAD = 0;
constexpr u32 STORE = 1;
constexpr u32 INDEX = 2;
constexpr u32 VALID = 3;
constexpr u32 GATHER = 4;
constexpr u32 END = 5;
constexpr u32 LOOP = 6;
constexpr u32 ENDLOOP = 7;
constexpr u32 ONCE = 8;
constexpr u32 PARTNER = 9;
constexpr u32 ROTATE = 10;
constexpr u32 BROADCAST = 11;
constexpr u32 PARTIAL = 12;
constexpr u32 COMMIT = 13;
constexpr u32 MOVE = 14;
constexpr u32 WHERE = 15;
constexpr u32 LAST_ACCESS = GATHER, LAST_CONTROL = COMMIT;
constexpr u32 OF_F32 = 0;
constexpr u32 OF_F64 = 1;
constexpr u32 OF_BF16 = 2;
constexpr u32 OF_F16 = 3;
constexpr u32 OF_I8 = 4;
constexpr u32 OF_I16 = 5;
constexpr u32 OF_I32 = 6;
constexpr u32 OF_I64 = 7;
constexpr u32 OF_U8 = 8;
constexpr u32 OF_U16 = 9;
constexpr u32 OF_U32 = 10;
constexpr u32 OF_U64 = 11;
constexpr u32 OF_BOOL = 12;
constexpr u32 SIZES = 15000670;
FN float as_f32(WORD x) { return bits_f32((u32)x); }
FN i32 as_i32(WORD x) { return (i32)(u32)x; }
FN u32 as_u32(WORD x) { return (u32)x; }
FN bool as_bool(WORD x) { return (u32)x != 0; }
FN WORD word(float x) { return f32_bits(x); }
FN WORD word(i32 x) { return (u32)x; }
FN WORD word(u32 x) { return x; }
FN WORD word(bool x) { return x; }
struct __align__(16) Lanes { WORD x[LANES]; };
__device__ __noinline__ WORD heavy(u32 op, WORD x, WORD y, WORD z) {
  switch (op) {
    case 17: return word(fabsf(as_f32(x)));
    case 18: return word(float_sign(as_f32(x)));
    case 20: return word(sqrtf(as_f32(x)));
    case 21: return word(1.0f / sqrtf(as_f32(x)));
    case 22: return word(1.0f / as_f32(x));
    case 23: return word(expf(as_f32(x)));
    case 24: return word(exp2f(as_f32(x)));
    case 25: return word(expm1f(as_f32(x)));
    case 26: return word(logf(as_f32(x)));
    case 27: return word(log2f(as_f32(x)));
    case 28: return word(log10f(as_f32(x)));
    case 29: return word(log1pf(as_f32(x)));
    case 30: return word(sine(as_f32(x)));
    case 31: return word(cosine(as_f32(x)));
    case 32: return word(tanf(as_f32(x)));
    case 33: return word(asinf(as_f32(x)));
    case 34: return word(acosf(as_f32(x)));
    case 35: return word(atanf(as_f32(x)));
    case 36: return word(sinhf(as_f32(x)));
    case 37: return word(coshf(as_f32(x)));
    case 38: return word(tangent(as_f32(x)));
    case 39: return word(asinhf(as_f32(x)));
    case 40: return word(acoshf(as_f32(x)));
    case 41: return word(atanhf(as_f32(x)));
    case 42: return word(error_function(as_f32(x)));
    case 43: return word(erfcf(as_f32(x)));
    case 44: return word(sigmoid(as_f32(x)));
    case 46: return word(floorf(as_f32(x)));
    case 47: return word(ceilf(as_f32(x)));
    case 48: return word(rintf(as_f32(x)));
    case 49: return word(truncf(as_f32(x)));
    case 50: return word(as_f32(x) != as_f32(x));
    case 51: return word(fabsf(as_f32(x)) == bits_f32(0x7f800000u));
    case 52: return word(fabsf(as_f32(x)) < bits_f32(0x7f800000u));
    case 56: return word(as_f32(x) / as_f32(y));
    case 57: return word(floorf(as_f32(x) / as_f32(y)));
    case 58: return word(float_rem(as_f32(x), as_f32(y)));
    case 59: return word(powf(as_f32(x), as_f32(y)));
    case 62: return word(atan2f(as_f32(x), as_f32(y)));
    case 63: return word(hypotf(as_f32(x), as_f32(y)));
    case 64: return word(as_f32(x) == as_f32(y));
    case 65: return word(as_f32(x) != as_f32(y));
    case 66: return word(as_f32(x) < as_f32(y));
    case 67: return word(as_f32(x) <= as_f32(y));
    case 68: return word(as_f32(x) > as_f32(y));
    case 69: return word(as_f32(x) >= as_f32(y));
    case 70: return word(smaller(larger(as_f32(x), as_f32(y)), as_f32(z)));
    case 71: return word(as_f32(x) + as_f32(z) * (as_f32(y) - as_f32(x)));
    case 126: return word(!as_bool(x));
    case 127: return word(as_bool(x) == as_bool(y));
    case 128: return word(as_bool(x) != as_bool(y));
    case 129: return word(as_bool(x) && as_bool(y));
    case 130: return word(as_bool(x) || as_bool(y));
    case 131: return word(as_bool(x) != as_bool(y));
    case 223: return word(to_int<u32>(as_f32(x)));
    case 235: return word((float)as_u32(x));
    case 237: return word(bf16_of((double)as_u32(x)));
    case 238: return word(f16_of((double)as_u32(x)));
    default: return 0;
  }
}
#define EACH(number, value) case number: for (int v = 0; v < LANES; v++) r.x[v] = word(value); return true;
FN bool light(u32 op, Lanes &r, const Lanes &x, const Lanes &y, const Lanes &z) {
  switch (op) {
    case MOVE: r = x; return true;
    case WHERE: for (int v = 0; v < LANES; v++) r.x[v] = as_bool(x.x[v]) ? y.x[v] : z.x[v]; return true;
    EACH(16, -as_f32(x.x[v]))
    EACH(19, as_f32(x.x[v]) * as_f32(x.x[v]))
    EACH(45, (as_f32(x.x[v]) <= 0 ? 0 : as_f32(x.x[v])))
    EACH(53, as_f32(x.x[v]) + as_f32(y.x[v]))
    EACH(54, as_f32(x.x[v]) - as_f32(y.x[v]))
    EACH(55, as_f32(x.x[v]) * as_f32(y.x[v]))
    EACH(60, smaller(as_f32(x.x[v]), as_f32(y.x[v])))
    EACH(61, larger(as_f32(x.x[v]), as_f32(y.x[v])))
    EACH(105, int_add<u32>(as_u32(x.x[v]), as_u32(y.x[v])))
    EACH(106, int_sub<u32>(as_u32(x.x[v]), as_u32(y.x[v])))
    EACH(107, int_mul<u32>(as_u32(x.x[v]), as_u32(y.x[v])))
    EACH(121, (u32)(as_u32(x.x[v]) | as_u32(y.x[v])))
    EACH(122, (u32)(as_u32(x.x[v]) ^ as_u32(y.x[v])))
    EACH(123, int_shl<u32>(as_u32(x.x[v]), as_u32(y.x[v])))
    EACH(124, int_shr<u32>(as_u32(x.x[v]), as_u32(y.x[v])))
    EACH(216, round_bf16((float)as_f32(x.x[v])))
    EACH(217, round_f16((float)as_f32(x.x[v])))
    default: return false;
  }
}
