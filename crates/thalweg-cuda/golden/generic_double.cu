// options: -fmad=false

// Any single operation, functions of f64 included.
typedef u64 WORD;
constexpr int LANES = 2, THREADS = 128;
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
FN double as_f64(WORD x) { return __longlong_as_double((i64)x); }
FN i64 as_i64(WORD x) { return (i64)x; }
FN WORD word(double x) { return (u64)__double_as_longlong(x); }
FN WORD word(i64 x) { return (u64)x; }
__device__ __noinline__ WORD heavy(u32 op, WORD x, WORD y, WORD z) {
  switch (op) {
    case 17: return word(fabsf(as_f32(x)));
    case 18: return word(float_sign(as_f32(x)));
    case 46: return word(floorf(as_f32(x)));
    case 47: return word(ceilf(as_f32(x)));
    case 48: return word(rintf(as_f32(x)));
    case 49: return word(truncf(as_f32(x)));
    case 50: return word(as_f32(x) != as_f32(x));
    case 51: return word(fabsf(as_f32(x)) == bits_f32(0x7f800000u));
    case 52: return word(fabsf(as_f32(x)) < bits_f32(0x7f800000u));
    case 56: return word(as_f32(x) / as_f32(y));
    case 64: return word(as_f32(x) == as_f32(y));
    case 65: return word(as_f32(x) != as_f32(y));
    case 66: return word(as_f32(x) < as_f32(y));
    case 67: return word(as_f32(x) <= as_f32(y));
    case 68: return word(as_f32(x) > as_f32(y));
    case 69: return word(as_f32(x) >= as_f32(y));
    case 70: return word(smaller(larger(as_f32(x), as_f32(y)), as_f32(z)));
    case 71: return word(as_f32(x) + as_f32(z) * (as_f32(y) - as_f32(x)));
    case 72: return word(int_neg<i32>(as_i32(x)));
    case 73: return word(int_abs<i32>(as_i32(x)));
    case 74: return word(int_sign<i32>(as_i32(x)));
    case 75: return word(int_mul<i32>(as_i32(x), as_i32(x)));
    case 76: return word(larger<i32>(as_i32(x), 0));
    case 77: return word(int_not<i32>(as_i32(x)));
    case 78: return word(int_add<i32>(as_i32(x), as_i32(y)));
    case 79: return word(int_sub<i32>(as_i32(x), as_i32(y)));
    case 80: return word(int_mul<i32>(as_i32(x), as_i32(y)));
    case 81: return word(int_div<i32>(as_i32(x), as_i32(y)));
    case 82: return word(int_floor<i32>(as_i32(x), as_i32(y)));
    case 83: return word(int_rem<i32>(as_i32(x), as_i32(y)));
    case 84: return word(int_pow<i32>(as_i32(x), as_i32(y)));
    case 85: return word(smaller<i32>(as_i32(x), as_i32(y)));
    case 86: return word(larger<i32>(as_i32(x), as_i32(y)));
    case 87: return word(as_i32(x) == as_i32(y));
    case 88: return word(as_i32(x) != as_i32(y));
    case 89: return word(as_i32(x) < as_i32(y));
    case 90: return word(as_i32(x) <= as_i32(y));
    case 91: return word(as_i32(x) > as_i32(y));
    case 92: return word(as_i32(x) >= as_i32(y));
    case 93: return word((i32)(as_i32(x) & as_i32(y)));
    case 94: return word((i32)(as_i32(x) | as_i32(y)));
    case 95: return word((i32)(as_i32(x) ^ as_i32(y)));
    case 96: return word(int_shl<i32>(as_i32(x), as_i32(y)));
    case 97: return word(int_shr<i32>(as_i32(x), as_i32(y)));
    case 98: return word(smaller<i32>(larger<i32>(as_i32(x), as_i32(y)), as_i32(z)));
    case 99: return word(int_neg<u32>(as_u32(x)));
    case 100: return word(int_abs<u32>(as_u32(x)));
    case 101: return word(int_sign<u32>(as_u32(x)));
    case 102: return word(int_mul<u32>(as_u32(x), as_u32(x)));
    case 103: return word(larger<u32>(as_u32(x), 0));
    case 104: return word(int_not<u32>(as_u32(x)));
    case 108: return word(int_div<u32>(as_u32(x), as_u32(y)));
    case 109: return word(int_floor<u32>(as_u32(x), as_u32(y)));
    case 110: return word(int_rem<u32>(as_u32(x), as_u32(y)));
    case 111: return word(int_pow<u32>(as_u32(x), as_u32(y)));
    case 112: return word(smaller<u32>(as_u32(x), as_u32(y)));
    case 113: return word(larger<u32>(as_u32(x), as_u32(y)));
    case 114: return word(as_u32(x) == as_u32(y));
    case 115: return word(as_u32(x) != as_u32(y));
    case 116: return word(as_u32(x) < as_u32(y));
    case 117: return word(as_u32(x) <= as_u32(y));
    case 118: return word(as_u32(x) > as_u32(y));
    case 119: return word(as_u32(x) >= as_u32(y));
    case 120: return word((u32)(as_u32(x) & as_u32(y)));
    case 125: return word(smaller<u32>(larger<u32>(as_u32(x), as_u32(y)), as_u32(z)));
    case 126: return word(!as_bool(x));
    case 127: return word(as_bool(x) == as_bool(y));
    case 128: return word(as_bool(x) != as_bool(y));
    case 129: return word(as_bool(x) && as_bool(y));
    case 130: return word(as_bool(x) || as_bool(y));
    case 131: return word(as_bool(x) != as_bool(y));
    case 132: return word(-as_f64(x));
    case 133: return word(fabs(as_f64(x)));
    case 134: return word(float_sign(as_f64(x)));
    case 135: return word(as_f64(x) * as_f64(x));
    case 136: return word(sqrt(as_f64(x)));
    case 137: return word(1.0 / sqrt(as_f64(x)));
    case 138: return word(1.0 / as_f64(x));
    case 139: return word(exp(as_f64(x)));
    case 140: return word(exp2(as_f64(x)));
    case 141: return word(expm1(as_f64(x)));
    case 142: return word(log(as_f64(x)));
    case 143: return word(log2(as_f64(x)));
    case 144: return word(log10(as_f64(x)));
    case 145: return word(log1p(as_f64(x)));
    case 146: return word(sin(as_f64(x)));
    case 147: return word(cos(as_f64(x)));
    case 148: return word(tan(as_f64(x)));
    case 149: return word(asin(as_f64(x)));
    case 150: return word(acos(as_f64(x)));
    case 151: return word(atan(as_f64(x)));
    case 152: return word(sinh(as_f64(x)));
    case 153: return word(cosh(as_f64(x)));
    case 154: return word(tanh(as_f64(x)));
    case 155: return word(asinh(as_f64(x)));
    case 156: return word(acosh(as_f64(x)));
    case 157: return word(atanh(as_f64(x)));
    case 158: return word(erf(as_f64(x)));
    case 159: return word(erfc(as_f64(x)));
    case 160: return word(sigmoid(as_f64(x)));
    case 161: return word((as_f64(x) <= 0 ? 0 : as_f64(x)));
    case 162: return word(floor(as_f64(x)));
    case 163: return word(ceil(as_f64(x)));
    case 164: return word(rint(as_f64(x)));
    case 165: return word(trunc(as_f64(x)));
    case 166: return word(as_f64(x) != as_f64(x));
    case 167: return word(fabs(as_f64(x)) == __longlong_as_double(0x7ff0000000000000ll));
    case 168: return word(fabs(as_f64(x)) < __longlong_as_double(0x7ff0000000000000ll));
    case 169: return word(as_f64(x) + as_f64(y));
    case 170: return word(as_f64(x) - as_f64(y));
    case 171: return word(as_f64(x) * as_f64(y));
    case 172: return word(as_f64(x) / as_f64(y));
    case 173: return word(floor(as_f64(x) / as_f64(y)));
    case 174: return word(float_rem(as_f64(x), as_f64(y)));
    case 175: return word(pow(as_f64(x), as_f64(y)));
    case 176: return word(smaller(as_f64(x), as_f64(y)));
    case 177: return word(larger(as_f64(x), as_f64(y)));
    case 178: return word(atan2(as_f64(x), as_f64(y)));
    case 179: return word(hypot(as_f64(x), as_f64(y)));
    case 180: return word(as_f64(x) == as_f64(y));
    case 181: return word(as_f64(x) != as_f64(y));
    case 182: return word(as_f64(x) < as_f64(y));
    case 183: return word(as_f64(x) <= as_f64(y));
    case 184: return word(as_f64(x) > as_f64(y));
    case 185: return word(as_f64(x) >= as_f64(y));
    case 186: return word(smaller(larger(as_f64(x), as_f64(y)), as_f64(z)));
    case 187: return word(as_f64(x) + as_f64(z) * (as_f64(y) - as_f64(x)));
    case 188: return word(int_neg<i64>(as_i64(x)));
    case 189: return word(int_abs<i64>(as_i64(x)));
    case 190: return word(int_sign<i64>(as_i64(x)));
    case 191: return word(int_mul<i64>(as_i64(x), as_i64(x)));
    case 192: return word(larger<i64>(as_i64(x), 0));
    case 193: return word(int_not<i64>(as_i64(x)));
    case 197: return word(int_div<i64>(as_i64(x), as_i64(y)));
    case 198: return word(int_floor<i64>(as_i64(x), as_i64(y)));
    case 199: return word(int_rem<i64>(as_i64(x), as_i64(y)));
    case 200: return word(int_pow<i64>(as_i64(x), as_i64(y)));
    case 201: return word(smaller<i64>(as_i64(x), as_i64(y)));
    case 202: return word(larger<i64>(as_i64(x), as_i64(y)));
    case 203: return word(as_i64(x) == as_i64(y));
    case 204: return word(as_i64(x) != as_i64(y));
    case 205: return word(as_i64(x) < as_i64(y));
    case 206: return word(as_i64(x) <= as_i64(y));
    case 207: return word(as_i64(x) > as_i64(y));
    case 208: return word(as_i64(x) >= as_i64(y));
    case 209: return word((i64)(as_i64(x) & as_i64(y)));
    case 210: return word((i64)(as_i64(x) | as_i64(y)));
    case 211: return word((i64)(as_i64(x) ^ as_i64(y)));
    case 212: return word(int_shl<i64>(as_i64(x), as_i64(y)));
    case 213: return word(int_shr<i64>(as_i64(x), as_i64(y)));
    case 214: return word(smaller<i64>(larger<i64>(as_i64(x), as_i64(y)), as_i64(z)));
    case 215: return word((double)as_f32(x));
    case 218: return word(to_int<i8>(as_f32(x)));
    case 219: return word(to_int<i16>(as_f32(x)));
    case 220: return word(to_int<i32>(as_f32(x)));
    case 221: return word(to_int<i64>(as_f32(x)));
    case 222: return word(to_int<u8>(as_f32(x)));
    case 223: return word(to_int<u32>(as_f32(x)));
    case 224: return word((as_f32(x) != 0));
    case 225: return word((float)as_i32(x));
    case 226: return word((double)as_i32(x));
    case 227: return word(bf16_of((double)as_i32(x)));
    case 228: return word(f16_of((double)as_i32(x)));
    case 229: return word((i8)as_i32(x));
    case 230: return word((i16)as_i32(x));
    case 231: return word((i64)as_i32(x));
    case 232: return word((u8)as_i32(x));
    case 233: return word((u32)as_i32(x));
    case 234: return word((as_i32(x) != 0));
    case 235: return word((float)as_u32(x));
    case 236: return word((double)as_u32(x));
    case 237: return word(bf16_of((double)as_u32(x)));
    case 238: return word(f16_of((double)as_u32(x)));
    case 239: return word((i8)as_u32(x));
    case 240: return word((i16)as_u32(x));
    case 241: return word((i32)as_u32(x));
    case 242: return word((i64)as_u32(x));
    case 243: return word((u8)as_u32(x));
    case 244: return word((as_u32(x) != 0));
    case 245: return word((float)as_f64(x));
    case 246: return word(bf16_of((double)as_f64(x)));
    case 247: return word(f16_of((double)as_f64(x)));
    case 248: return word(to_int<i8>(as_f64(x)));
    case 249: return word(to_int<i16>(as_f64(x)));
    case 250: return word(to_int<i32>(as_f64(x)));
    case 251: return word(to_int<i64>(as_f64(x)));
    case 252: return word(to_int<u8>(as_f64(x)));
    case 253: return word(to_int<u32>(as_f64(x)));
    case 254: return word((as_f64(x) != 0));
    case 255: return word((float)as_i64(x));
    case 256: return word((double)as_i64(x));
    case 257: return word(bf16_of(odd_f64(as_i64(x))));
    case 258: return word(f16_of(odd_f64(as_i64(x))));
    case 259: return word((i8)as_i64(x));
    case 260: return word((i16)as_i64(x));
    case 261: return word((i32)as_i64(x));
    case 262: return word((u8)as_i64(x));
    case 263: return word((u32)as_i64(x));
    case 264: return word((as_i64(x) != 0));
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
    EACH(194, int_add<i64>(as_i64(x.x[v]), as_i64(y.x[v])))
    EACH(195, int_sub<i64>(as_i64(x.x[v]), as_i64(y.x[v])))
    EACH(196, int_mul<i64>(as_i64(x.x[v]), as_i64(y.x[v])))
    EACH(216, round_bf16((float)as_f32(x.x[v])))
    EACH(217, round_f16((float)as_f32(x.x[v])))
    default: return false;
  }
}
