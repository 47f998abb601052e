// A libcuda.so.1 that has no GPU: it keeps what is put in its queue and does it as late as it may, a step at each question whether an event has happened, so that memory
// that is used again too early shows. Kernels are known by name. 64 MiB of memory, 2 devices.
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
struct Event { u64 at = 0; bool recorded = false; };
struct Kernel { std::string name; int allowed = 48 << 10; };
struct Module { std::vector<Kernel*> kernels; };
struct Parameters {
    Kernel* function;
    unsigned grid[3], block[3], shared;
    u64** arguments;
    void *extra, *kernel, *context;
};
struct Node { Kernel* kernel; u64 words[2]; unsigned grid; };
struct Graph { std::deque<Node> nodes; };

static std::recursive_mutex lock;
static std::deque<Work> queue;
static u64 put = 0, done = 0;
static std::map<u64, size_t> blocks;
static size_t in_use = 0, high = 0;
static int failed = 0, updates = 0, refuse = 0, trims = 0;
static thread_local void* current = nullptr;
static const size_t MEMORY = 64 << 20;

#define CALL extern "C" int
#define ENTER \
    std::lock_guard<std::recursive_mutex> guard(lock); \
    if (!current) return 201; \
    if (failed) return failed;

static void enqueue(Work work) { queue.push_back(work); put++; }
static void step() {
    if (queue.empty()) return;
    Work work = queue.front();
    queue.pop_front();
    work();
    done++;
}
static void run(Kernel* kernel, u64 x, u64 y, unsigned grid) {
    if (kernel->name == "add") *(u64*)x += y * grid;
    if (kernel->name == "crash") failed = 700;
}

// For the tests: how often graphs were updated, whether they are to refuse it, and how often memory was trimmed.
CALL fakeUpdates() { return updates; }
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
CALL cuStreamCreate(void** s, unsigned) { ENTER return *s = (void*)7, 0; }
CALL cuStreamSynchronize(void*) { ENTER while (!queue.empty()) step(); return failed; }
CALL cuStreamDestroy_v2(void*) { return 0; }
CALL cuMemPoolCreate(void** p, const void* props) { ENTER return *p = (void*)9, ((const int*)props)[0] == 1 && ((const int*)props)[2] == 1 ? 0 : 1; }
CALL cuMemPoolSetAttribute(void*, unsigned, void* v) { return *(u64*)v == ~0ull ? 0 : 1; }
CALL cuMemPoolTrimTo(void*, size_t) { return trims++, 0; }
CALL cuMemPoolDestroy(void*) { return 0; }
CALL cuMemAlloc_v2(u64* a, size_t n) {
    ENTER
    if (in_use + n > MEMORY) return 2;
    *a = (u64)aligned_alloc(256, (n + 255) / 256 * 256);
    memset((void*)*a, 0xa5, n);
    blocks[*a] = n;
    in_use += n;
    if (in_use > high) high = in_use;
    return 0;
}
CALL cuMemAllocFromPoolAsync(u64* a, size_t n, void*, void*) { return cuMemAlloc_v2(a, n); }
CALL cuMemFree_v2(u64 a) { ENTER in_use -= blocks[a]; blocks.erase(a); free((void*)a); return 0; }
CALL cuMemFreeAsync(u64 a, void*) { ENTER enqueue([a] { in_use -= blocks[a]; blocks.erase(a); free((void*)a); }); return 0; }
CALL cuMemHostAlloc(void** p, size_t n, unsigned) { ENTER return *p = malloc(n), 0; }
CALL cuMemFreeHost(void* p) { return free(p), 0; }
CALL cuMemcpyHtoDAsync_v2(u64 to, const void* from, size_t n, void*) { ENTER enqueue([=] { memcpy((void*)to, from, n); }); return 0; }
CALL cuMemcpyDtoHAsync_v2(void* to, u64 from, size_t n, void*) { ENTER enqueue([=] { memcpy(to, (void*)from, n); }); return 0; }
CALL cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t n, void*) { ENTER enqueue([=] { memcpy((void*)to, (void*)from, n); }); return 0; }
CALL cuMemsetD8Async(u64 to, unsigned char x, size_t n, void*) { ENTER enqueue([=] { memset((void*)to, x, n); }); return 0; }
CALL cuEventCreate(void** e, unsigned) { ENTER return *e = new Event, 0; }
CALL cuEventRecord(Event* e, void*) { ENTER e->at = put; e->recorded = true; return 0; }
CALL cuEventQuery(Event* e) { ENTER if (done >= e->at) return 0; step(); return failed ? failed : 600; }
CALL cuEventSynchronize(Event* e) { ENTER while (done < e->at) step(); return failed; }
CALL cuEventElapsedTime(float* t, Event* a, Event* b) { ENTER return *t = float(b->at - a->at), done >= b->at && a->recorded ? 0 : 600; }
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
CALL cuLaunchKernel(Kernel* f, unsigned x, unsigned, unsigned, unsigned block, unsigned, unsigned, unsigned shared, void*, u64** p, void*) {
    ENTER
    if (block > 1024 || int(shared) > f->allowed) return 1;
    u64 a = p[0][0], b = p[0][1];
    enqueue([=] { run(f, a, b, x); });
    return 0;
}
struct Config { unsigned grid[3], block[3], shared; void* stream; void* attributes; unsigned many; };
CALL cuLaunchKernelEx(const Config* c, Kernel* f, u64** p, void*) {
    ENTER
    if (c->many != 1) return 1;
    return cuLaunchKernel(f, c->grid[0], 1, 1, c->block[0], 1, 1, c->shared, c->stream, p, nullptr);
}
CALL cuGraphCreate(Graph** g, unsigned) { ENTER return *g = new Graph, 0; }
static Node node(const Parameters* p) { return {p->function, {p->arguments[0][0], p->arguments[0][1]}, p->grid[0]}; }
CALL cuGraphAddKernelNode_v2(Node** n, Graph* g, Node* const* before, size_t many, const Parameters* p) {
    ENTER
    if (many != (g->nodes.empty() ? 0 : 1) || (many && *before != &g->nodes.back())) return 1;
    if (int(p->shared) > p->function->allowed) return 1;
    g->nodes.push_back(node(p));
    *n = &g->nodes.back();
    return 0;
}
CALL cuGraphInstantiateWithFlags(Graph** e, Graph* g, u64) { ENTER return *e = g, 0; }
CALL cuGraphExecKernelNodeSetParams_v2(Graph*, Node* n, const Parameters* p) { ENTER if (refuse) return 910; updates++; *n = node(p); return 0; }
CALL cuGraphLaunch(Graph* g, void*) { ENTER for (Node& n : g->nodes) { Node c = n; enqueue([=] { run(c.kernel, c.words[0], c.words[1], c.grid); }); } return 0; }
CALL cuGraphDestroy(Graph* g) { return delete g, 0; }
CALL cuGraphExecDestroy(Graph*) { return 0; }
