// What cp.async and the tensor memory accelerator do once it is done.
#pragma once
#include <stdint.h>
#include <string.h>

#include <vector>

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

// A box of a tensor and what lies of it in shared memory.
struct BulkCopy {
  char* shared;
  TensorMap map;  // a copy: the kernel's parameter ends with the thread
  int at[5];
  uint32_t bytes() const {
    uint32_t n = map.element_bytes;
    for (uint32_t d = 0; d < map.rank; ++d) n *= map.box[d];
    return n;
  }
  // `act` gets for each element its place in shared memory, its number in bytes, and its address in
  // the tensor or null outside of it. Rows of the box lie one after the other. A swizzle of B bytes
  // exchanges 16-byte units: bits 4.. of the offset are xor-ed with bits 7..
  template <class Act>
  void each(Act act) const {
    uint32_t index[5] = {}, size = map.element_bytes, total = bytes();
    const uintptr_t mask = map.swizzle_bytes ? map.swizzle_bytes / 16 - 1 : 0;
    for (uint32_t offset = 0; offset < total; offset += size) {
      const char* global = map.base;
      bool inside = true;
      for (uint32_t d = 0; d < map.rank; ++d) {
        const int64_t i = int64_t(at[d]) + index[d];
        inside &= i >= 0 && i < int64_t(map.extent[d]);
        global += i * int64_t(map.stride[d]);
      }
      uintptr_t address = reinterpret_cast<uintptr_t>(shared) + offset;
      address ^= (address >> 7 & mask) << 4;
      act(reinterpret_cast<char*>(address), offset, inside ? global : nullptr);
      for (uint32_t d = 0; d < map.rank && ++index[d] == map.box[d]; ++d) index[d] = 0;
    }
  }
  void run() const {  // a load; what lies outside is zero
    const uint32_t size = map.element_bytes;
    each([&](char* place, uint32_t, const char* global) {
      if (global) memcpy(place, global, size);
      else memset(place, 0, size);
    });
  }
};

// A store, which first reads all of its box, and writes it when it is done.
struct BulkStore {
  BulkCopy box;
  int group;  // of its thread
  std::vector<char> values;
  void read() {
    if (!values.empty()) return;
    values.resize(box.bytes());
    box.each([&](char* place, uint32_t offset, const char*) {
      memcpy(&values[offset], place, box.map.element_bytes);
    });
  }
  void write() {
    box.each([&](char*, uint32_t offset, const char* global) {
      if (global) memcpy(const_cast<char*>(global), &values[offset], box.map.element_bytes);
    });
  }
};

}  // namespace dlc
