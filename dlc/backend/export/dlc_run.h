// What an exported program runs on: its files, its memory, and launches, on a GPU by the CUDA driver
// or, with DLC_HOST, on the CPU by scheduler.cpp. Everything runs in order, on one stream.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#ifdef DLC_HOST
#include "dlc_host.h"
extern "C" int dlc_run(void (*kernel)(void**), void** args, const dlc::Launch* launch,
                       char* message, size_t size);
#define DLC_KERNEL(name)                \
  extern "C" void name##_thread(void**); \
  static exported::Kernel name = {#name, name##_thread};
#define DLC_DATA_TYPE(name) 0
#else
#include <cuda.h>
#define DLC_KERNEL(name) static exported::Kernel name = {#name, nullptr};
#define DLC_DATA_TYPE(name) CU_TENSOR_MAP_DATA_TYPE_##name
#endif

namespace exported {

using Numbers = std::vector<long long>;

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "error: %s\n", what.c_str());
  std::exit(1);
}

inline std::string shown(const Numbers& numbers) {
  std::ostringstream text;
  for (size_t i = 0; i < numbers.size(); i++) text << (i ? ", " : "") << numbers[i];
  return "(" + text.str() + (numbers.size() == 1 ? ",)" : ")");
}

// ---- where it runs -----------------------------------------------------------------------------

#ifdef DLC_HOST

struct Kernel {
  const char* name;
  void (*thread)(void**);
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
  return static_cast<char*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256 + 256));
}
inline void to_device(char* to, const char* from, size_t bytes) { std::memcpy(to, from, bytes); }
inline void to_host(char* to, const char* from, size_t bytes) { std::memcpy(to, from, bytes); }
inline void fill_zero(char* to, size_t bytes) { std::memset(to, 0, bytes); }

inline void run_kernel(Kernel& kernel, const std::string&, unsigned grid, unsigned block,
                       unsigned shared, void** args) {
  dlc::Launch launch = {};
  launch.grid = grid;
  launch.block = block;
  launch.shared_bytes = shared;
  launch.workers = std::thread::hardware_concurrency();
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

// ---- tensors in files --------------------------------------------------------------------------

struct Type {
  const char *name, *numpy, *safetensors;
  size_t bytes;
};

// NumPy has no bf16: its bits are written as u2.
inline const Type& type_of(const std::string& name) {
  static const Type types[] = {
      {"f64", "<f8", "F64", 8}, {"f32", "<f4", "F32", 4},   {"f16", "<f2", "F16", 2},
      {"bf16", "<u2", "BF16", 2}, {"i64", "<i8", "I64", 8}, {"i32", "<i4", "I32", 4},
      {"i16", "<i2", "I16", 2}, {"i8", "|i1", "I8", 1},     {"u8", "|u1", "U8", 1},
      {"bool", "|b1", "BOOL", 1}};
  for (const Type& type : types)
    if (name == type.name) return type;
  fail("unknown type of elements " + name);
}

inline bool read_file(const std::string& path, std::string& contents) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return false;
  std::ostringstream text;
  text << stream.rdbuf();
  contents = text.str();
  return true;
}

// The text between `begin` and the next `end` after the first `key`, or nothing.
inline std::string between(const std::string& text, const std::string& key,
                           const std::string& begin, const std::string& end, size_t from = 0) {
  size_t at = text.find(key, from);
  if (at == std::string::npos || (at = text.find(begin, at)) == std::string::npos) return "";
  at += begin.size();
  return text.substr(at, text.find(end, at) - at);
}

// The elements of a .npy file (format 1 or 2), which must be of this shape.
inline std::string npy_elements(const std::string& path, const std::string& contents,
                                const Type& type, const Numbers& shape) {
  if (contents.compare(0, 6, "\x93NUMPY") || contents.size() < 12)
    fail(path + " is not a .npy file");
  const auto byte = [&](size_t at) { return static_cast<size_t>(static_cast<uint8_t>(contents[at])); };
  const bool old = byte(6) == 1;
  const size_t length = old ? byte(8) | byte(9) << 8
                            : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  const size_t first = (old ? 10 : 12) + length;
  const std::string header = contents.substr(old ? 10 : 12, length);
  const std::string found = between(header, "'descr'", ": '", "'");
  if (found != type.numpy)
    fail(path + ": expected elements of type " + type.numpy + ", found " + found);
  if (header.find("'fortran_order': False") == std::string::npos)
    fail(path + ": expected elements in row-major order");
  Numbers sizes;
  std::istringstream list(between(header, "'shape'", "(", ")"));
  for (std::string item; std::getline(list, item, ',');)
    if (item.find_first_of("0123456789") != std::string::npos) sizes.push_back(std::stoll(item));
  if (sizes != shape) fail(path + ": expected the shape " + shown(shape) + ", found " + shown(sizes));
  return contents.substr(first);
}

// The elements of a tensor in a safetensors file; false if there is none of that name.
inline bool safetensors_elements(const std::string& path, const std::string& name,
                                 const Type& type, std::string& elements) {
  std::ifstream stream(path, std::ios::binary);
  uint64_t length = 0;
  if (!stream.read(reinterpret_cast<char*>(&length), 8)) fail(path + " cannot be read");
  std::string header(length, ' ');
  stream.read(&header[0], length);
  const size_t at = header.find("\"" + name + "\":{");
  if (at == std::string::npos) return false;
  const std::string entry = header.substr(at, header.find('}', at) - at);
  const std::string found = between(entry, "\"dtype\"", ":\"", "\"");
  if (found != type.safetensors)
    fail(path + ": expected " + name + " of type " + type.safetensors + ", found " + found);
  const std::string offsets = between(entry, "\"data_offsets\"", "[", "]");
  const long long begin = std::stoll(offsets), end = std::stoll(offsets.substr(offsets.find(',') + 1));
  elements.resize(end - begin);
  stream.seekg(8 + length + begin);
  stream.read(&elements[0], end - begin);
  return true;
}

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
  Program(int argc, char** argv, const char* usage) {
    if (argc == 2 && (!std::strcmp(argv[1], "--help") || !std::strcmp(argv[1], "-h"))) {
      std::fputs(usage, stdout);
      std::exit(0);
    }
    for (; argc > 1; --argc, ++argv) {
      if (!std::strncmp(argv[1], "--seed=", 7)) state_[0] = number(argv[1] + 7);
      else if (!std::strncmp(argv[1], "--offset=", 9)) state_[1] = number(argv[1] + 9);
      else break;
      seeded_ = true;
      argv[1] = argv[0];
    }
    if (argc < 3 || argc > 4) fail(std::string("expected two or three folders and files\n") + usage);
    const std::string self = argv[0];
    directory_ = self.substr(0, self.find_last_of('/') + 1);
    inputs_ = argv[1];
    results_ = argv[2];
    if (argc == 4) weights_ = argv[3];
    struct stat found;
    if (stat(results_.c_str(), &found) || !S_ISDIR(found.st_mode))
      fail("there is no folder " + results_ + " for the results; make it first: mkdir -p " +
           results_);
    start();
  }

  // New memory, at an address that 256 divides.
  char* allocate(size_t bytes) { return device_alloc(bytes); }

  // The argument `name`, as its file or the weights have it.
  char* argument(const std::string& name, const char* dtype, const Numbers& shape,
                 const Numbers& strides, const std::string& file = "") {
    const Type& type = type_of(dtype);
    const std::string path = inputs_ + "/" + (file.empty() ? name : file);
    std::string elements;
    if (read_file(path + ".npy", elements))
      elements = npy_elements(path + ".npy", elements, type, shape);
    else if (!read_file(path + ".bin", elements) &&
             !(!weights_.empty() && safetensors_elements(weights_, name, type, elements)))
      fail("there is no argument " + name + ": expected " + path + ".npy or " + path + ".bin" +
           (weights_.empty() ? "" : ", or a tensor of that name in " + weights_));
    long long count = 1;
    for (long long n : shape) count *= n;
    if (elements.size() != count * type.bytes)
      fail(name + ": expected " + std::to_string(count * type.bytes) + " bytes, found " +
           std::to_string(elements.size()));
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
    if (!seeded_) return argument(name, "i64", {2}, {1}, file);
    char* address = allocate(sizeof state_);
    to_device(address, reinterpret_cast<const char*>(state_), sizeof state_);
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
    const std::string path = results_ + "/" + name + ".npy";
    std::ofstream stream(path, std::ios::binary);
    std::string header = std::string("{'descr': '") + type.numpy +
                         "', 'fortran_order': False, 'shape': " + shown(shape) + ", }";
    header += std::string(63 - (10 + header.size()) % 64, ' ') + "\n";
    const char length[] = {static_cast<char>(header.size() & 255),
                           static_cast<char>(header.size() >> 8)};
    stream.write("\x93NUMPY\x01\x00", 8).write(length, 2) << header;
    for_each_element(shape, strides, [&](long long, long long from) {
      stream.write(&memory[from * type.bytes], type.bytes);
    });
    if (!stream) fail(path + " cannot be written");
  }

 private:
  static long long number(const char* text) {
    char* end = nullptr;
    const long long value = std::strtoll(text, &end, 10);
    if (end == text || *end) fail(std::string("expected a number, found ") + text);
    return value;
  }

  long long state_[2] = {0, 0};
  bool seeded_ = false;
  std::string directory_, inputs_, results_, weights_;
};

}  // namespace exported
