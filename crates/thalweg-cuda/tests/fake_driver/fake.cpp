// A libcuda.so.1 that has no GPU: it keeps what is put in its streams and does it as late as it may, a step at each question whether an event has happened, of the stream of that
// event or of one that this waits for; so memory that is used again too early shows, and so does a stream that does not wait for another one. Kernels are known by name. 64 MiB of memory, 2 devices. And a libcublasLt.so.13 that computes on the host, by algorithms some of which are wrong.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

typedef uint64_t u64;
typedef std::function<void()> Work;
struct Stream;
struct Event { Stream* stream = nullptr; u64 at = 0, put = 0; bool recorded = false; };
// Work, or a point that what follows comes behind.
struct Item { Work work; Stream* other = nullptr; u64 at = 0; };
struct Stream { std::deque<Item> queue; u64 put = 0, done = 0; };
struct Kernel { std::string name; int allowed = 48 << 10; };
struct Module { std::vector<Kernel*> kernels; };
struct Parameters {
    Kernel* function;
    unsigned grid[3], block[3], shared;
    u64** arguments;
    void *extra, *kernel, *context;
};
struct Node { Kernel* kernel; u64 words[2]; unsigned grid; std::vector<Work> child; };
struct Graph { std::deque<Node> nodes; std::vector<Work> captured; };

static std::recursive_mutex lock;
static u64 put = 0;
static std::vector<Stream*> all;
static std::map<u64, size_t> blocks;
static size_t in_use = 0, high = 0;
static void* capturing = nullptr;
static std::vector<Work> captured;
static int child_updates = 0;
static int failed = 0, updates = 0, refuse = 0, trims = 0;
static thread_local void* current = nullptr;
static const size_t MEMORY = 64 << 20;

#define CALL extern "C" int
#define ENTER \
    std::lock_guard<std::recursive_mutex> guard(lock); \
    if (!current) return 201; \
    if (failed) return failed;

static void enqueue(void* stream, Work work) { ((Stream*)stream)->queue.push_back({work}); ((Stream*)stream)->put++; put++; }
// For the library: work in a stream, which may be captured.
static void enqueue_in(void* stream, Work work) {
    if (stream == capturing) captured.push_back(work); else enqueue(stream, work);
}
static void step(Stream* stream) {
    if (stream->queue.empty()) return;
    Item item = stream->queue.front();
    if (item.other && item.other->done < item.at) return step(item.other);
    stream->queue.pop_front();
    if (item.work) item.work();
    stream->done++;
}
static bool happened(Event* e) { return !e->stream || e->stream->done >= e->at; }
static void run(Kernel* kernel, u64 x, u64 y, unsigned grid) {
    if (kernel->name == "add") *(u64*)x += y * grid;
    if (kernel->name == "crash") failed = 700;
}

// For the tests: how often graphs were updated, whether they are to refuse it, and how often memory was trimmed.
CALL fakeUpdates() { return updates; }
CALL fakeChildUpdates() { return child_updates; }
CALL fakeTrims() { return trims; }
CALL fakeRefuse(int x) { return refuse = x; }
CALL fakeHigh() { return int(high >> 20); }

CALL cuInit(unsigned) { return 0; }
CALL cuDriverGetVersion(int* v) { return *v = 13000, 0; }
CALL cuGetErrorName(int e, const char** s) { return *s = e == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : e == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER", 0; }
CALL cuGetErrorString(int e, const char** s) { return *s = "it is so", e == 1 ? 1 : 0; }
CALL cuDeviceGetCount(int* n) { return *n = 2, 0; }
CALL cuDeviceGet(int* d, int n) { return *d = n, 0; }
CALL cuDeviceGetName(char* s, int n, int) { return strncpy(s, "fake", n), 0; }
CALL cuDeviceGetAttribute(int* v, unsigned a, int) { return *v = a == 75 ? 9 : a == 76 ? 0 : a == 115 ? 1 : 132, 0; }
CALL cuDeviceTotalMem_v2(size_t* n, int) { return *n = MEMORY, 0; }
CALL cuDevicePrimaryCtxRetain(void** c, int d) { return *c = (void*)(intptr_t)(d + 1), 0; }
CALL cuCtxSetCurrent(void* c) { return current = c, 0; }
CALL cuStreamCreate(void** s, unsigned) { ENTER Stream* made = new Stream; all.push_back(made); return *s = made, 0; }
CALL cuStreamCreateWithPriority(void** s, unsigned, int) { return cuStreamCreate(s, 0); }
CALL cuDeviceGetUuid(char* id, int n) { return memset(id, n, 16), 0; }
CALL cuStreamBeginCapture_v2(void* s, unsigned) { ENTER if (capturing) return 1; capturing = s; captured.clear(); return 0; }
CALL cuStreamEndCapture(void* s, Graph** g) { ENTER if (capturing != s) return 1; capturing = nullptr; *g = new Graph; (*g)->captured = captured; return 0; }
CALL cuStreamWaitEvent(Stream* s, Event* e, unsigned) { ENTER if (e->stream) { s->queue.push_back({nullptr, e->stream, e->at}); s->put++; } return 0; }
CALL cuStreamDestroy_v2(void*) { return 0; }
CALL cuMemPoolCreate(void** p, const void* props) { ENTER return *p = (void*)9, ((const int*)props)[0] == 1 && ((const int*)props)[2] == 1 ? 0 : 1; }
CALL cuMemPoolSetAttribute(void*, unsigned, void* v) { return *(u64*)v == ~0ull ? 0 : 1; }
CALL cuMemPoolTrimTo(void*, size_t) { return trims++, 0; }
CALL cuMemPoolDestroy(void*) { return 0; }
CALL cuMemAlloc_v2(u64* a, size_t n) {
    ENTER
    if (in_use + n > MEMORY) return 2;
    // A bit more, for who reads beyond.
    *a = (u64)aligned_alloc(256, (n + 511) / 256 * 256);
    memset((void*)*a, 0xa5, n);
    blocks[*a] = n;
    in_use += n;
    if (in_use > high) high = in_use;
    return 0;
}
CALL cuMemAllocFromPoolAsync(u64* a, size_t n, void*, void*) { return cuMemAlloc_v2(a, n); }
CALL cuMemFree_v2(u64 a) { ENTER in_use -= blocks[a]; blocks.erase(a); free((void*)a); return 0; }
CALL cuMemFreeAsync(u64 a, void* s) { ENTER enqueue(s, [a] { in_use -= blocks[a]; blocks.erase(a); free((void*)a); }); return 0; }
CALL cuMemHostAlloc(void** p, size_t n, unsigned) { ENTER return *p = malloc(n), 0; }
CALL cuMemFreeHost(void* p) { return free(p), 0; }
CALL cuMemcpyHtoDAsync_v2(u64 to, const void* from, size_t n, void* s) { ENTER enqueue(s, [=] { memcpy((void*)to, from, n); }); return 0; }
CALL cuMemcpyDtoHAsync_v2(void* to, u64 from, size_t n, void* s) { ENTER enqueue(s, [=] { memcpy(to, (void*)from, n); }); return 0; }
CALL cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t n, void* s) { ENTER enqueue(s, [=] { memcpy((void*)to, (void*)from, n); }); return 0; }
CALL cuMemcpyPeerAsync(u64 to, void* a, u64 from, void* b, size_t n, void* s) { ENTER if (a == b || current != a) return 1; enqueue(s, [=] { memcpy((void*)to, (void*)from, n); }); return 0; }
CALL cuDeviceCanAccessPeer(int* can, int a, int b) { return *can = a != b, 0; }
CALL cuCtxGetDevice(int* d) { return *d = int((intptr_t)current) - 1, 0; }
CALL cuMemPoolSetAccess(void*, const int* access, size_t n) { return n == 1 && access[0] == 1 && access[2] == 3 ? 0 : 1; }
CALL cuMemsetD8Async(u64 to, unsigned char x, size_t n, void* s) { ENTER enqueue(s, [=] { memset((void*)to, x, n); }); return 0; }
template <class T> static int fill_rows(u64 to, size_t pitch, T x, size_t width, size_t height, void* s) {
    ENTER
    if (pitch < width * sizeof(T) && height > 1) return 1;
    enqueue(s, [=] { for (size_t j = 0; j < height; j++) for (size_t i = 0; i < width; i++) ((T*)(to + j * pitch))[i] = x; });
    return 0;
}
CALL cuMemsetD2D16Async(u64 to, size_t pitch, unsigned short x, size_t w, size_t h, void* s) { return fill_rows(to, pitch, x, w, h, s); }
CALL cuMemsetD2D32Async(u64 to, size_t pitch, unsigned x, size_t w, size_t h, void* s) { return fill_rows(to, pitch, x, w, h, s); }
CALL cuEventCreate(void** e, unsigned) { ENTER return *e = new Event, 0; }
CALL cuEventRecord(Event* e, Stream* s) { ENTER e->stream = s; e->at = s->put; e->put = put; e->recorded = true; return 0; }
CALL cuEventQuery(Event* e) { ENTER if (happened(e)) return 0; step(e->stream); return failed ? failed : 600; }
CALL cuEventSynchronize(Event* e) { ENTER while (!happened(e)) step(e->stream); return failed; }
CALL cuEventElapsedTime(float* t, Event* a, Event* b) { ENTER return *t = float(b->put - a->put), happened(b) && a->recorded ? 0 : 600; }
CALL cuEventDestroy_v2(Event* e) { return delete e, 0; }
CALL cuModuleLoadData(Module** m, const char* image) { ENTER if (strcmp(image, "fake")) return 200; return *m = new Module, 0; }
CALL cuModuleUnload(Module* m) { return delete m, 0; }
CALL cuModuleGetFunction(Kernel** f, Module* m, const char* name) {
    ENTER
    if (strcmp(name, "add") && strcmp(name, "crash")) return 500;
    m->kernels.push_back(*f = new Kernel{name});
    return 0;
}
CALL cuFuncGetAttribute(int* v, unsigned a, Kernel*) { return *v = a == 4 ? 24 : a == 1 ? 128 : 0, 0; }
CALL cuFuncSetAttribute(Kernel* f, unsigned a, int v) { return a == 8 && v <= 227 << 10 ? f->allowed = v, 0 : 1; }
CALL cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, Kernel*, int block, size_t) { return *n = 2048 / block, 0; }
CALL cuLaunchKernel(Kernel* f, unsigned x, unsigned, unsigned, unsigned block, unsigned, unsigned, unsigned shared, void* s, u64** p, void*) {
    ENTER
    if (block > 1024 || int(shared) > f->allowed) return 1;
    u64 a = p[0][0], b = p[0][1];
    enqueue(s, [=] { run(f, a, b, x); });
    return 0;
}
struct Config { unsigned grid[3], block[3], shared; void* stream; void* attributes; unsigned many; };
CALL cuLaunchKernelEx(const Config* c, Kernel* f, u64** p, void*) {
    ENTER
    if (c->many != 1) return 1;
    return cuLaunchKernel(f, c->grid[0], 1, 1, c->block[0], 1, 1, c->shared, c->stream, p, nullptr);
}
// A map is its address and nothing else.
CALL cuTensorMapEncodeTiled(u64* map, unsigned, unsigned, void* a, const u64*, const u64*, const unsigned*, const unsigned*, unsigned, unsigned, unsigned, unsigned) {
    ENTER
    map[0] = u64(a);
    return 0;
}
CALL cuTensorMapReplaceAddress(u64* map, void* a) { ENTER return map[0] = u64(a), 0; }
CALL cuGraphCreate(Graph** g, unsigned) { ENTER return *g = new Graph, 0; }
static Node node(const Parameters* p) { return {p->function, {p->arguments[0][0], p->arguments[0][1]}, p->grid[0], {}}; }
static bool follows(Graph* g, Node* const* before, size_t many) { return many == (g->nodes.empty() ? 0 : 1) && (!many || *before == &g->nodes.back()); }
CALL cuGraphAddKernelNode_v2(Node** n, Graph* g, Node* const* before, size_t many, const Parameters* p) {
    ENTER
    if (!follows(g, before, many)) return 1;
    if (int(p->shared) > p->function->allowed) return 1;
    g->nodes.push_back(node(p));
    *n = &g->nodes.back();
    return 0;
}
CALL cuGraphAddChildGraphNode(Node** n, Graph* g, Node* const* before, size_t many, Graph* child) {
    ENTER
    if (!follows(g, before, many) || child->captured.empty()) return 1;
    g->nodes.push_back({nullptr, {}, 0, child->captured});
    *n = &g->nodes.back();
    return 0;
}
CALL cuGraphExecChildGraphNodeSetParams(Graph*, Node* n, Graph* child) { ENTER if (refuse || n->kernel) return 910; child_updates++; n->child = child->captured; return 0; }
CALL cuGraphInstantiateWithFlags(Graph** e, Graph* g, u64) { ENTER return *e = g, 0; }
CALL cuGraphExecKernelNodeSetParams_v2(Graph*, Node* n, const Parameters* p) { ENTER if (refuse) return 910; updates++; *n = node(p); return 0; }
CALL cuGraphLaunch(Graph* g, void* s) { ENTER for (Node& n : g->nodes) { Node c = n; enqueue(s, [=] { for (const Work& w : c.child) w(); if (c.kernel) run(c.kernel, c.words[0], c.words[1], c.grid); }); } return 0; }
CALL cuGraphDestroy(Graph* g) { return delete g, 0; }
CALL cuGraphExecDestroy(Graph*) { return 0; }

// cuBLASLt. Algorithms by their number: 1 right, with any alignment it was asked for; 2 leaves out the last term; 3 reads a row too many; 4 has 1 KiB of workspace and uses it; 5 does
// not run; 6 splits sums and adds the parts in the result's dtype, 7 in the accumulators'.
enum { BAD = 7, NOT_RUN = 13, UNSUPPORTED = 15 };
struct Operation { int compute, scale, transpose[2]; };
struct Layout { int type; u64 rows, columns; long long leading; int count = 1; long long stride = 0; };
struct Preference { u64 workspace = 0; unsigned schemes = 7, alignment[4] = {256, 256, 256, 256}; };
struct Algorithm { u64 number, alignment[3], magic, none[3]; };
struct Heuristic { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };
static const u64 MAGIC = 0x746c7773616c6221;
static int offered = 1, heuristics = 0, products = 0, failing = 0;

// For the tests: which algorithms there are (21: first 2, then 1), how often was asked for some, how many products were run, and whether they are to fail.
CALL fakeOffer(int all) { return offered = all; }
CALL fakeHeuristics() { return heuristics; }
CALL fakeProducts() { return products; }
CALL fakeFailing(int x) { return failing = x; }

static size_t size_of(int type) { return type == 1 ? 8 : type == 0 ? 4 : 2; }
// To so many binary digits, half to even; numbers below 2^least lose some.
static double rounded(double v, int digits, int least) {
    if (v == 0 || !std::isfinite(v)) return v;
    int e;
    std::frexp(v, &e);
    const int unit = (e > least ? e : least) - digits;
    return std::ldexp(std::nearbyint(std::ldexp(v, -unit)), unit);
}
static double get(int type, u64 at) {
    if (type == 1) return *(double*)at;
    if (type == 0) return *(float*)at;
    const unsigned bits = *(uint16_t*)at;
    if (type == 14) { const unsigned wide = bits << 16; float f; memcpy(&f, &wide, 4); return f; }
    const int e = bits >> 10 & 31, m = bits & 1023;
    const double v = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(1024 + m, e - 25) : std::ldexp(m, -24);
    return bits >> 15 ? -v : v;
}
static void set(int type, u64 at, double v) {
    if (type == 1) { *(double*)at = v; return; }
    if (type == 0) { *(float*)at = float(v); return; }
    if (type == 14) { const float f = float(rounded(v, 8, -125)); unsigned bits; memcpy(&bits, &f, 4); *(uint16_t*)at = bits >> 16; return; }
    const double a = std::fabs(rounded(v, 11, -13));
    unsigned bits = std::isnan(v) ? 0x7e00 : a >= 65520 ? 0x7c00 : 0;
    if (!bits && a >= std::ldexp(1, -14)) { int e; const double m = std::frexp(a, &e); bits = (e + 14) << 10 | (unsigned(m * 2048) & 1023); }
    else if (!bits) bits = unsigned(std::ldexp(a, 24));
    *(uint16_t*)at = bits | (std::signbit(v) ? 0x8000 : 0);
}

extern "C" const char* cublasLtGetStatusString(int s) { return s == NOT_RUN ? "it does not run" : nullptr; }
extern "C" size_t cublasLtGetVersion() { return 130400; }
CALL cublasLtCreate(void** h) { ENTER return *h = (void*)5, 0; }
CALL cublasLtDestroy(void*) { return 0; }
CALL cublasLtMatmulDescCreate(Operation** d, int compute, int scale) { return *d = new Operation{compute, scale, {}}, 0; }
CALL cublasLtMatmulDescSetAttribute(Operation* d, unsigned a, const int* v, size_t n) { return (a == 3 || a == 4) && n == 4 ? d->transpose[a - 3] = *v, 0 : BAD; }
CALL cublasLtMatmulDescDestroy(Operation* d) { return delete d, 0; }
CALL cublasLtMatrixLayoutCreate(Layout** l, int type, u64 rows, u64 columns, long long leading) { return *l = new Layout{type, rows, columns, leading}, 0; }
CALL cublasLtMatrixLayoutSetAttribute(Layout* l, unsigned a, const void* v, size_t n) {
    if (a == 5 && n == 4) return l->count = *(int*)v, 0;
    return a == 6 && n == 8 ? l->stride = *(long long*)v, 0 : BAD;
}
CALL cublasLtMatrixLayoutDestroy(Layout* l) { return delete l, 0; }
CALL cublasLtMatmulPreferenceCreate(Preference** p) { return *p = new Preference, 0; }
CALL cublasLtMatmulPreferenceSetAttribute(Preference* p, unsigned a, const void* v, size_t n) {
    if (a == 1 && n == 8) return p->workspace = *(u64*)v, 0;
    if (a == 3 && n == 4) return p->schemes = *(unsigned*)v, 0;
    return a >= 5 && a <= 8 && n == 4 ? p->alignment[a - 5] = *(unsigned*)v, 0 : BAD;
}
CALL cublasLtMatmulPreferenceDestroy(Preference* p) { return delete p, 0; }
// What the real one refuses.
static bool fits(const Operation* o, const Layout* a, const Layout* b, const Layout* c) {
    const bool f64 = a->type == 1, types = a->type == b->type && b->type == c->type && o->scale == (f64 ? 1 : 0);
    const bool compute = o->compute == (f64 ? 70 : 68) || (o->compute == 77 && a->type == 0);
    for (const Layout* l : {a, b, c}) if (l->leading < (long long)l->rows || l->count != c->count || l->stride < 0) return false;
    const u64 rows = o->transpose[0] ? a->columns : a->rows, depth = o->transpose[0] ? a->rows : a->columns;
    const u64 columns = o->transpose[1] ? b->rows : b->columns, other = o->transpose[1] ? b->columns : b->rows;
    return types && compute && rows == c->rows && columns == c->columns && depth == other;
}
CALL cublasLtMatmulAlgoGetHeuristic(void*, Operation* o, Layout* a, Layout* b, Layout* c, Layout* d, Preference* p, int most, Heuristic* out, int* count) {
    heuristics++;
    *count = 0;
    if (!fits(o, a, b, c) || c != d) return UNSUPPORTED;
    const std::string all = std::to_string(offered);
    for (char n : all) {
        if (*count == most) break;
        const size_t workspace = n == '4' ? 1024 : 0;
        if (workspace > p->workspace) continue;
        const Algorithm algorithm = {u64(n - '0'), {p->alignment[0], p->alignment[1], p->alignment[3]}, MAGIC, {}};
        out[(*count)++] = {algorithm, workspace, 0, 1, {}};
    }
    return 0;
}
CALL cublasLtMatmulAlgoCheck(void*, Operation* o, Layout* a, Layout* b, Layout* c, Layout*, const Algorithm* algorithm, Heuristic* out) {
    if (algorithm->magic != MAGIC || !fits(o, a, b, c)) return BAD;
    return out->state = 0, out->workspace = algorithm->number == 4 ? 1024 : 0, 0;
}
CALL cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, unsigned a, unsigned* v, size_t n, size_t* written) {
    return a == 3 && n == 4 ? *v = algorithm->number == 6 ? 1 : algorithm->number == 7 ? 2 : 0, *written = 4, 0 : BAD;
}
CALL cublasLtMatmul(void*, Operation* op, const void* alpha, u64 a, Layout* la, u64 b, Layout* lb, const void* beta, u64 c, Layout* lc, u64 d, Layout*, const Algorithm* chosen, u64 work, size_t workspace, void* stream) {
    ENTER
    const Algorithm g = *chosen;
    const Layout A = *la, B = *lb, C = *lc;
    const Operation o = *op;
    const bool f64 = A.type == 1;
    if ((f64 ? *(double*)alpha : *(float*)alpha) != 1 || (f64 ? *(double*)beta : *(float*)beta) != 0 || c != d) return BAD;
    if (g.magic != MAGIC || !fits(op, la, lb, lc) || (g.number == 4 && (workspace != 1024 || !work))) return BAD;
    if (a % g.alignment[0] || b % g.alignment[1] || d % g.alignment[2]) return BAD;
    if (failing || g.number == 5) return NOT_RUN;
    products++;
    enqueue_in(stream, [=] {
        if (g.number == 4) memset((void*)work, 0x77, 1024);
        const size_t size = size_of(A.type);
        const u64 depth = o.transpose[0] ? A.rows : A.columns, terms = depth - (g.number == 2) + (g.number == 3);
        const auto factor = [&](double v) { return o.compute == 77 ? rounded(v, 11, -125) : v; };
        for (int n = 0; n < C.count; n++) for (u64 j = 0; j < C.columns; j++) for (u64 i = 0; i < C.rows; i++) {
            double sum = 0;
            for (u64 p = 0; p < terms; p++) {
                const u64 x = o.transpose[0] ? p + i * A.leading : i + p * A.leading, y = o.transpose[1] ? j + p * B.leading : p + j * B.leading;
                const double product = factor(get(A.type, a + (n * A.stride + x) * size)) * factor(get(B.type, b + (n * B.stride + y) * size));
                sum = f64 ? sum + product : float(sum + product);
            }
            set(C.type, d + (n * C.stride + i + j * C.leading) * size, sum);
        }
    });
    return 0;
}
