/*
 * Stand-ins for CUDA's driver (-DDRIVER), runtime (-DRUNTIME) and linear algebra (-DALGEBRA), of version 12: an engine's
 * backend for CUDA builds, encodes, captures and launches its graphs as it does on a device. Memory is the host's, and
 * kernels compute nothing. The runtime calls the driver as the real one does, as far as profinfer's probes see it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default"), noinline))
#define SUCCEEDS(name)                                                                                                 \
	EXPORTED int name(void)                                                                                        \
	{                                                                                                              \
		return 0;                                                                                              \
	}
#define FAILS(name)                                                                                                    \
	EXPORTED int name(void)                                                                                        \
	{                                                                                                              \
		return 999;                                                                                            \
	}

#ifdef DRIVER
/* The driver's functions begin with a push, as all that call others do. */
static volatile uint64_t calls;

static __attribute__((noinline)) int call(void)
{
	calls++;
	return 0;
}

#define CALL(name, ...)                                                                                                \
	EXPORTED int name(__VA_ARGS__)                                                                                 \
	{                                                                                                              \
		int status = call();                                                                                   \
                                                                                                                       \
		return status + call();                                                                                \
	}

CALL(cuLaunchKernel, void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
     unsigned shared, void *stream, void **parameters, void **extra)
CALL(cuLaunchKernelEx, const void *launch, void *kernel, void **parameters, void **extra)
CALL(cuStreamBeginCapture_v2, void *stream, int mode)
CALL(cuGraphExecUpdate_v2, void *executable, void *graph, void *result)
CALL(cuGraphLaunch, void *executable, void *stream)
CALL(cuEventRecord, void *event, void *stream)
CALL(cuEventSynchronize, void *event)
CALL(cuStreamSynchronize, void *stream)
CALL(cuStreamWaitEvent, void *stream, void *event, unsigned flags)
CALL(cuCtxSynchronize, void)

EXPORTED int cuModuleGetFunction(void **function, void *module, const char *name)
{
	calls++;
	*function = strdup(name);
	return module == NULL && !*function;
}

EXPORTED int cuStreamEndCapture(void *stream, void **graph)
{
	calls++;
	*graph = malloc(64);
	return !stream;
}

EXPORTED int cuGraphInstantiateWithFlags(void **executable, void *graph, uint64_t flags)
{
	calls += flags;
	*executable = malloc(64);
	return !graph;
}

EXPORTED int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
	calls += !stream;
	memcpy(to, from, bytes);
	return 0;
}

EXPORTED int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
	calls += !stream;
	memcpy(to, from, bytes);
	return 0;
}

EXPORTED int cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
	calls += !stream;
	memmove(to, from, bytes);
	return 0;
}

EXPORTED int cuDeviceGet(int *device, int number)
{
	*device = number;
	return 0;
}

/* It has none of them: memory is not mapped by pages. */
EXPORTED int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	*value = 0;
	return attribute < device;
}

FAILS(cuGetErrorString)
FAILS(cuMemAddressFree)
FAILS(cuMemAddressReserve)
FAILS(cuMemCreate)
FAILS(cuMemGetAllocationGranularity)
FAILS(cuMemMap)
FAILS(cuMemRelease)
FAILS(cuMemSetAccess)
FAILS(cuMemUnmap)
#endif

#ifdef RUNTIME
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
		   void *stream, void **parameters, void **extra);
int cuLaunchKernelEx(const void *launch, void *kernel, void **parameters, void **extra);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuGraphInstantiateWithFlags(void **executable, void *graph, uint64_t flags);
int cuGraphExecUpdate_v2(void *executable, void *graph, void *result);
int cuGraphLaunch(void *executable, void *stream);
int cuEventRecord(void *event, void *stream);
int cuEventSynchronize(void *event);
int cuStreamSynchronize(void *stream);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuCtxSynchronize(void);
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream);
int cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream);

struct size {
	unsigned x, y, z;
};

/* Kernels by the host's function; the driver gives a handle for a name when it is first needed. */
#define KERNELS (1 << 16)
static struct kernel {
	const void *host;
	const char *name;
	void *handle;
} kernels[KERNELS];

static struct kernel *kernel_of(const void *host)
{
	size_t at = ((uintptr_t)host >> 4) * 2654435761U % KERNELS;

	while (kernels[at].host && kernels[at].host != host)
		at = (at + 1) % KERNELS;
	return &kernels[at];
}

static void *handle_of(const void *host)
{
	struct kernel *kernel = kernel_of(host);

	if (!kernel->handle)
		cuModuleGetFunction(&kernel->handle, NULL, kernel->name);
	return kernel->handle;
}

EXPORTED void **__cudaRegisterFatBinary(void *binary)
{
	static void *module;

	module = binary;
	return &module;
}

EXPORTED void __cudaRegisterFunction(void **module, const char *host, char *device, const char *name)
{
	struct kernel *kernel = kernel_of(host);

	*kernel = (struct kernel){ host, name, NULL };
	(void)module, (void)device;
}

SUCCEEDS(__cudaRegisterFatBinaryEnd)
SUCCEEDS(__cudaUnregisterFatBinary)
SUCCEEDS(__cudaRegisterVar)

static __thread struct configuration {
	struct size grid, block;
	size_t shared;
	void *stream;
} configuration;

EXPORTED unsigned __cudaPushCallConfiguration(struct size grid, struct size block, size_t shared, void *stream)
{
	configuration = (struct configuration){ grid, block, shared, stream };
	return 0;
}

EXPORTED int __cudaPopCallConfiguration(struct size *grid, struct size *block, size_t *shared, void **stream)
{
	*grid = configuration.grid;
	*block = configuration.block;
	*shared = configuration.shared;
	*stream = configuration.stream;
	return 0;
}

EXPORTED int cudaLaunchKernel(const void *host, struct size grid, struct size block, void **arguments, size_t shared,
			      void *stream)
{
	return cuLaunchKernel(handle_of(host), grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream,
			      arguments, NULL);
}

EXPORTED int cudaLaunchCooperativeKernel(const void *host, struct size grid, struct size block, void **arguments,
					 size_t shared, void *stream)
{
	return cudaLaunchKernel(host, grid, block, arguments, shared, stream);
}

/* Sizes, shared memory and stream are where the driver has them, but for the width of the shared memory. */
EXPORTED int cudaLaunchKernelExC(const void *launch, const void *host, void **arguments)
{
	return cuLaunchKernelEx(launch, handle_of(host), arguments, NULL);
}

EXPORTED int cudaGetDeviceCount(int *count)
{
	*count = 1;
	return 0;
}

EXPORTED int cudaGetDevice(int *device)
{
	*device = 0;
	return 0;
}

EXPORTED int cudaGetDeviceProperties_v2(char *properties, int device)
{
	static const struct {
		size_t at;
		uint64_t value;
		size_t width;
	} values[] = {
		{ 288, 4ULL << 30, 8 }, /* memory */
		{ 296, 48 << 10, 8 },	/* shared memory of a block */
		{ 304, 65536, 4 },	/* registers */
		{ 308, 32, 4 },		/* threads of a warp */
		{ 320, 1024, 4 },	/* threads of a block */
		{ 336, 0x7fffffff, 4 }, /* blocks */
		{ 340, 65535, 4 },
		{ 344, 65535, 4 },
		{ 360, 9, 4 }, /* capability */
		{ 388, 8, 4 }, /* multiprocessors */
		{ 640, 228 << 10, 8 },
		{ 696, 227 << 10, 8 },
	};

	memset(properties, 0, 1032);
	strcpy(properties, "stand-in");
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		memcpy(properties + values[i].at, &values[i].value, values[i].width);
	return device;
}

EXPORTED int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
	*value = 0;
	return attribute < device;
}

EXPORTED int cudaDeviceGetPCIBusId(char *id, int length, int device)
{
	strncpy(id, "0000:01:00.0", (size_t)length);
	return device;
}

EXPORTED int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = 0;
	return device != peer && device > 0;
}

EXPORTED int cudaMemGetInfo(size_t *available, size_t *all)
{
	*available = *all = 4ULL << 30;
	return 0;
}

EXPORTED int cudaMalloc(void **memory, size_t bytes)
{
	size_t whole = (bytes + 255) / 256 * 256;

	*memory = aligned_alloc(256, whole ? whole : 256);
	if (*memory)
		memset(*memory, 0, bytes);
	return *memory ? 0 : 2;
}

EXPORTED int cudaMallocManaged(void **memory, size_t bytes)
{
	return cudaMalloc(memory, bytes);
}

EXPORTED int cudaMallocHost(void **memory, size_t bytes)
{
	return cudaMalloc(memory, bytes);
}

EXPORTED int cudaHostAlloc(void **memory, size_t bytes)
{
	return cudaMalloc(memory, bytes);
}

EXPORTED int cudaFree(void *memory)
{
	free(memory);
	return 0;
}

EXPORTED int cudaFreeHost(void *memory)
{
	return cudaFree(memory);
}

EXPORTED int cudaMemset(void *memory, int value, size_t bytes)
{
	memset(memory, value, bytes);
	return 0;
}

EXPORTED int cudaMemsetAsync(void *memory, int value, size_t bytes)
{
	return cudaMemset(memory, value, bytes);
}

EXPORTED int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
	switch (kind) {
	case 1:
		return cuMemcpyHtoDAsync_v2(to, from, bytes, stream);
	case 2:
		return cuMemcpyDtoHAsync_v2(to, from, bytes, stream);
	default:
		return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
	}
}

EXPORTED int cudaMemcpy2DAsync(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width, size_t height)
{
	for (size_t row = 0; row < height; row++)
		memmove(to + row * to_pitch, from + row * from_pitch, width);
	return 0;
}

static __thread void *capturing;

EXPORTED int cudaStreamCreateWithFlags(void **stream, unsigned flags)
{
	*stream = calloc(1, 64);
	return flags > 1 || !*stream;
}

EXPORTED int cudaStreamBeginCapture(void *stream, int mode)
{
	capturing = stream;
	return cuStreamBeginCapture_v2(stream, mode);
}

EXPORTED int cudaStreamEndCapture(void *stream, void **graph)
{
	capturing = NULL;
	return cuStreamEndCapture(stream, graph);
}

EXPORTED int cudaStreamIsCapturing(void *stream, int *is)
{
	*is = capturing && capturing == stream;
	return 0;
}

EXPORTED int cudaStreamSynchronize(void *stream)
{
	return cuStreamSynchronize(stream);
}

EXPORTED int cudaStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	return cuStreamWaitEvent(stream, event, flags);
}

EXPORTED int cudaDeviceSynchronize(void)
{
	return cuCtxSynchronize();
}

EXPORTED int cudaEventCreateWithFlags(void **event, unsigned flags)
{
	*event = calloc(1, 64);
	return flags > 7 || !*event;
}

EXPORTED int cudaEventRecord(void *event, void *stream)
{
	return cuEventRecord(event, stream);
}

EXPORTED int cudaEventSynchronize(void *event)
{
	return cuEventSynchronize(event);
}

EXPORTED int cudaGraphInstantiate(void **executable, void *graph, uint64_t flags)
{
	return cuGraphInstantiateWithFlags(executable, graph, flags);
}

EXPORTED int cudaGraphExecUpdate(void *executable, void *graph, void *result)
{
	return cuGraphExecUpdate_v2(executable, graph, result);
}

EXPORTED int cudaGraphLaunch(void *executable, void *stream)
{
	return cuGraphLaunch(executable, stream);
}

EXPORTED int cudaFuncGetAttributes(void *attributes, const void *host)
{
	static const int values[] = { 1024, 32, 75, 75 };

	memset(attributes, 0, 144);
	memcpy((char *)attributes + 24, values, sizeof(values));
	return !host;
}

EXPORTED int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks)
{
	*blocks = 2;
	return 0;
}

EXPORTED const char *cudaGetErrorString(int error)
{
	return error ? "an error of the stand-in" : "none";
}

SUCCEEDS(cudaDeviceEnablePeerAccess)
SUCCEEDS(cudaEventDestroy)
SUCCEEDS(cudaFuncSetAttribute)
SUCCEEDS(cudaGetLastError)
SUCCEEDS(cudaGraphDestroy)
SUCCEEDS(cudaGraphExecDestroy)
SUCCEEDS(cudaHostUnregister)
SUCCEEDS(cudaPeekAtLastError)
SUCCEEDS(cudaSetDevice)
SUCCEEDS(cudaSetDeviceFlags)
SUCCEEDS(cudaStreamDestroy)
FAILS(cudaHostGetDevicePointer)
FAILS(cudaHostRegister)
FAILS(cudaMemcpy3DPeerAsync)
FAILS(cudaMemcpyPeerAsync)
#endif

#ifdef ALGEBRA
EXPORTED int cublasCreate_v2(void **handle)
{
	*handle = malloc(64);
	return !*handle;
}

EXPORTED const char *cublasGetStatusString(void)
{
	return "of the stand-in";
}

SUCCEEDS(cublasDestroy_v2)
SUCCEEDS(cublasGemmBatchedEx)
SUCCEEDS(cublasGemmEx)
SUCCEEDS(cublasGemmStridedBatchedEx)
SUCCEEDS(cublasSetMathMode)
SUCCEEDS(cublasSetStream_v2)
SUCCEEDS(cublasSetWorkspace_v2)
SUCCEEDS(cublasSgemmBatched)
SUCCEEDS(cublasSgemmStridedBatched)
SUCCEEDS(cublasSgemm_v2)
SUCCEEDS(cublasStrsmBatched)
#endif
