// What an exported program runs on: its memory and launches, on a GPU by the CUDA driver or, with
// DLC_HOST, on the CPU by scheduler.cpp. Everything runs in order, on one stream. dlc_files.h reads
// its files, dlc_options.h its command line.
#pragma once
#include <cstdint>
#include <new>
#include <thread>
#include <tuple>

#include "dlc_files.h"
#include "dlc_options.h"

#ifdef DLC_HOST
#include "dlc_host.h"
extern "C" int dlc_run(void (*kernel)(void**), void** args, const dlc::Launch* launch,
                       char* message, size_t size);
#define DLC_KERNEL(name)                \
  extern "C" void name##_thread(void**); \
  extern "C" const int name##_cluster;   \
  static exported::Kernel name = {#name, name##_thread, &name##_cluster};
#define DLC_DATA_TYPE(name) 0
#else
#include <cuda.h>
#define DLC_KERNEL(name) static exported::Kernel name = {#name, nullptr};
#define DLC_DATA_TYPE(name) CU_TENSOR_MAP_DATA_TYPE_##name
#endif

namespace exported {

// ---- where it runs -----------------------------------------------------------------------------

#ifdef DLC_HOST

struct Kernel {
  const char* name;
  void (*thread)(void**);
  const int* cluster;
};

// As the kernels' prelude declares it.
struct __attribute__((aligned(128))) TensorMap {
  uint64_t address, extents[5], strides[5];
  uint32_t box[5], rank, element_bytes, swizzle_bytes;
};

inline TensorMap tensor_map(char* address, int, unsigned element_bytes, const Numbers& extents,
                            const Numbers& strides, const Numbers& box, unsigned swizzle) {
  TensorMap map = {};
  map.address = reinterpret_cast<uint64_t>(address);
  for (size_t d = 0; d < extents.size(); d++) {
    map.extents[d] = extents[d];
    map.strides[d] = strides[d];
    map.box[d] = box[d];
  }
  map.rank = extents.size();
  map.element_bytes = element_bytes;
  map.swizzle_bytes = swizzle;
  return map;
}

inline void start() {}
inline char* device_alloc(size_t bytes) {
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
  if (!memory) fail("there is not enough memory for " + std::to_string(bytes) + " bytes more");
  return static_cast<char*>(memory);
}
inline void to_device(char* to, const char* from, size_t bytes) { std::copy_n(from, bytes, to); }
inline void to_host(char* to, const char* from, size_t bytes) { std::copy_n(from, bytes, to); }
inline void fill_zero(char* to, size_t bytes) { std::memset(to, 0, bytes); }

inline void run_kernel(Kernel& kernel, const std::string&, unsigned grid, unsigned block,
                       unsigned shared, void** args) {
  dlc::Launch launch = {};
  launch.grid = grid;
  launch.block = block;
  launch.shared_bytes = shared;
  launch.workers = std::thread::hardware_concurrency();
  launch.cluster = *kernel.cluster;
  char message[4096] = "";
  if (::dlc_run(kernel.thread, args, &launch, message, sizeof message))
    fail(std::string(kernel.name) + ": " + message);
}

#else

struct Kernel {
  const char* name;
  CUfunction function;
};

using TensorMap = CUtensorMap;

inline void check(CUresult status, const std::string& what) {
  const char* name = "unknown";
  if (status == CUDA_SUCCESS) return;
  cuGetErrorString(status, &name);
  fail(what + ": " + name);
}

inline TensorMap tensor_map(char* address, CUtensorMapDataType type, unsigned,
                            const Numbers& extents, const Numbers& strides, const Numbers& box,
                            unsigned swizzle) {
  TensorMap map;
  cuuint64_t sizes[5], steps[5];
  cuuint32_t boxes[5], ones[5] = {1, 1, 1, 1, 1};
  for (size_t d = 0; d < extents.size(); d++) {
    sizes[d] = extents[d];
    boxes[d] = box[d];
    if (d) steps[d - 1] = strides[d];  // the innermost is the size of an element
  }
  const CUtensorMapSwizzle swizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B,
                                         CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B};
  const int kind = swizzle == 0 ? 0 : swizzle == 32 ? 1 : swizzle == 64 ? 2 : 3;
  check(cuTensorMapEncodeTiled(&map, type, extents.size(), address, sizes, steps, boxes, ones,
                               CU_TENSOR_MAP_INTERLEAVE_NONE, swizzles[kind],
                               CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "a tensor map is refused");
  return map;
}

inline void start() {
  CUdevice device;
  CUcontext context;
  check(cuInit(0), "the CUDA driver does not start");
  check(cuDeviceGet(&device, 0), "there is no GPU");
  check(cuDevicePrimaryCtxRetain(&context, device), "the GPU gives no context");
  check(cuCtxSetCurrent(context), "the context cannot be used");
}

inline char* device_alloc(size_t bytes) {
  CUdeviceptr memory;
  check(cuMemAlloc(&memory, bytes ? bytes : 1), std::to_string(bytes) + " bytes of GPU memory");
  return reinterpret_cast<char*>(memory);
}
inline CUdeviceptr device(const char* address) { return reinterpret_cast<CUdeviceptr>(address); }
inline void to_device(char* to, const char* from, size_t bytes) {
  check(cuMemcpyHtoD(device(to), from, bytes), "a copy to the GPU");
}
inline void to_host(char* to, const char* from, size_t bytes) {
  check(cuCtxSynchronize(), "a kernel fails");
  check(cuMemcpyDtoH(to, device(from), bytes), "a copy from the GPU");
}
inline void fill_zero(char* to, size_t bytes) {
  check(cuMemsetD8Async(device(to), 0, bytes, nullptr), "zeros");
}

inline void run_kernel(Kernel& kernel, const std::string& directory, unsigned grid, unsigned block,
                       unsigned shared, void** args) {
  if (!kernel.function) {
    const std::string file = directory + "kernels/" + kernel.name + ".cubin";
    CUmodule module;
    check(cuModuleLoad(&module, file.c_str()), file);
    check(cuModuleGetFunction(&kernel.function, module, kernel.name), file);
    if (shared)
      check(cuFuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               shared),
            std::string(kernel.name) + ": its shared memory is refused");
  }
  check(cuLaunchKernel(kernel.function, grid, 1, 1, block, 1, 1, shared, nullptr, args, nullptr),
        std::string(kernel.name) + ": the launch fails");
}

#endif

// ---- tensors in memory -------------------------------------------------------------------------

// Copies elements between row-major order and memory with strides.
template <class Move>
void for_each_element(const Numbers& shape, const Numbers& strides, Move move) {
  long long count = 1;
  for (long long n : shape) count *= n;
  Numbers point(shape.size(), 0);
  for (long long number = 0; number < count; number++) {
    long long place = 0;
    for (size_t d = 0; d < shape.size(); d++) place += point[d] * strides[d];
    move(number, place);
    for (size_t d = shape.size(); d-- > 0 && ++point[d] == shape[d];) point[d] = 0;
  }
}

inline size_t span_bytes(const Type& type, const Numbers& shape, const Numbers& strides) {
  long long last = 0;
  for (size_t d = 0; d < shape.size(); d++) {
    if (shape[d] == 0) return 0;
    last += (shape[d] - 1) * strides[d];
  }
  return (last + 1) * type.bytes;
}

// ---- the program -------------------------------------------------------------------------------

class Program {
 public:
  // `draws` says whether the program draws random numbers.
  Program(int argc, char** argv, const char* usage, bool draws)
      : options_(argc, argv, usage, draws) {
    const std::string self = argv[0];
    directory_ = self.substr(0, self.find_last_of('/') + 1);
    std::set_new_handler([] { fail("there is not enough memory"); });
    if (!options_.weights.empty()) weights_.open(options_.weights);
    make_folder(options_.results);
    start();
  }

  // New memory, at an address that 256 divides.
  char* allocate(size_t bytes) { return device_alloc(bytes); }

  // The argument `name`, as its file or the weights have it.
  char* argument(const std::string& name, const char* dtype, const Numbers& shape,
                 const Numbers& strides, const std::string& file = "") {
    const Type& type = type_of(dtype);
    const std::string path = options_.inputs + "/" + (file.empty() ? name : file);
    std::string elements;
    if (!npy_elements(path + ".npy", type, shape, elements) &&
        !bin_elements(path + ".bin", type, shape, elements) &&
        !weights_.elements(name, type, shape, elements))
      options_.fail_with_usage(
          "there is no argument " + name + ": expected " + path + ".npy or " + path + ".bin" +
          (options_.weights.empty() ? "" : ", or a tensor of that name in " + options_.weights));
    std::vector<char> memory(span_bytes(type, shape, strides));
    for_each_element(shape, strides, [&](long long from, long long to) {
      std::memcpy(&memory[to * type.bytes], &elements[from * type.bytes], type.bytes);
    });
    char* address = allocate(memory.size());
    to_device(address, memory.data(), memory.size());
    return address;
  }

  // Seed and offset of random numbers: those of the command line, or else as an argument.
  char* state(const std::string& name, const std::string& file = "") {
    if (!options_.seeded) return argument(name, "i64", {2}, {1}, file);
    const long long state[] = {options_.seed, options_.offset};
    char* address = allocate(sizeof state);
    to_device(address, reinterpret_cast<const char*>(state), sizeof state);
    return address;
  }

  void zero(char* buffer, size_t bytes) { fill_zero(buffer, bytes); }

  // A condition, which is waited for.
  bool says(const char* flag) {
    char byte = 0;
    to_host(&byte, flag, 1);
    return byte != 0;
  }

  // Tensor maps first, then the addresses of inputs and outputs.
  template <class... Arguments>
  void launch(Kernel& kernel, unsigned grid, unsigned block, unsigned shared,
              Arguments... arguments) {
    void* addresses[] = {&arguments..., nullptr};
    run_kernel(kernel, directory_, grid, block, shared, addresses);
  }

  // Copies the elements of a result to the argument that the program writes them to.
  void write_back(char* argument, const char* dtype, const Numbers& shape, const Numbers& strides,
                  const char* result, const Numbers& result_strides) {
    const Type& type = type_of(dtype);
    std::vector<char> elements(span_bytes(type, shape, result_strides));
    std::vector<char> memory(span_bytes(type, shape, strides));
    Numbers places;
    to_host(elements.data(), result, elements.size());
    to_host(memory.data(), argument, memory.size());
    for_each_element(shape, strides, [&](long long, long long to) { places.push_back(to); });
    for_each_element(shape, result_strides, [&](long long number, long long from) {
      std::memcpy(&memory[places[number] * type.bytes], &elements[from * type.bytes], type.bytes);
    });
    to_device(argument, memory.data(), memory.size());
  }

  // Writes a tensor to RESULTS/NAME.npy.
  void result(const std::string& name, const char* buffer, const char* dtype, const Numbers& shape,
              const Numbers& strides) {
    const Type& type = type_of(dtype);
    std::vector<char> memory(span_bytes(type, shape, strides));
    to_host(memory.data(), buffer, memory.size());
    std::string elements;
    for_each_element(shape, strides, [&](long long, long long from) {
      elements.append(&memory[from * type.bytes], type.bytes);
    });
    write_npy(options_.results + "/" + name + ".npy", type, shape, elements);
  }

 private:
  Options options_;
  Weights weights_;
  std::string directory_;  // of the program itself
};

}  // namespace exported
