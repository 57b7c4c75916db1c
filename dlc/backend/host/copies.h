// What cp.async and the tensor memory accelerator do once it is done.
#pragma once
#include <stdint.h>
#include <string.h>

namespace dlc {

struct Copy {
  char* dst;
  const char* src;
  int bytes;
  bool pred;
  void run() const {  // zero-fill where the predicate is false
    if (pred) memcpy(dst, src, bytes);
    else memset(dst, 0, bytes);
  }
};

// A tensor map of the prelude (struct tensor_map), as encoded for the host.
struct TensorMap {
  const char* base;
  uint64_t extent[5];  // elements, innermost first
  uint64_t stride[5];  // bytes
  uint32_t box[5];     // elements
  uint32_t rank, element_bytes, swizzle_bytes;
};

struct BulkCopy {
  char* dst;
  TensorMap map;  // a copy: the kernel's parameter ends with the thread
  int at[5];
  uint32_t bytes() const {
    uint32_t n = map.element_bytes;
    for (uint32_t d = 0; d < map.rank; ++d) n *= map.box[d];
    return n;
  }
  // Rows of the box one after the other; what lies outside the tensor is zero. A swizzle of B
  // bytes exchanges 16-byte units: bits 4.. of the offset are xor-ed with bits 7..
  void run() const {
    uint32_t index[5] = {}, size = map.element_bytes, total = bytes();
    const uintptr_t mask = map.swizzle_bytes ? map.swizzle_bytes / 16 - 1 : 0;
    for (uint32_t offset = 0; offset < total; offset += size) {
      const char* src = map.base;
      bool inside = true;
      for (uint32_t d = 0; d < map.rank; ++d) {
        const int64_t i = int64_t(at[d]) + index[d];
        inside &= i >= 0 && i < int64_t(map.extent[d]);
        src += i * int64_t(map.stride[d]);
      }
      uintptr_t address = reinterpret_cast<uintptr_t>(dst) + offset;
      address ^= (address >> 7 & mask) << 4;
      if (inside) memcpy(reinterpret_cast<char*>(address), src, size);
      else memset(reinterpret_cast<char*>(address), 0, size);
      for (uint32_t d = 0; d < map.rank && ++index[d] == map.box[d]; ++d) index[d] = 0;
    }
  }
};

}  // namespace dlc
