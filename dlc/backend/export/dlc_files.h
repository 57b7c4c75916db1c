// Tensors in files: .npy, .bin and .safetensors. A file that does not fit ends the program with a
// sentence that names it.
#pragma once
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "dlc_text.h"

namespace exported {

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

inline uint64_t elements_bytes(const Type& type, const Numbers& shape) {
  uint64_t bytes = type.bytes;
  for (long long n : shape) bytes *= n;
  return bytes;
}

// Bytes of the longest header that is read; that of safetensors' own library is the same.
constexpr uint64_t MAX_HEADER = 100000000;

// A file of which parts are read.
class File {
 public:
  // False if there is none. One that is no file, or that cannot be read, is an error.
  bool open(const std::string& path) {
    struct stat found;
    path_ = path;
    if (stat(path.c_str(), &found)) {
      if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return false;
      fail(path + " cannot be read: " + std::strerror(errno));
    }
    if (!S_ISREG(found.st_mode))
      fail(path + (S_ISDIR(found.st_mode) ? " is a folder, not a file" : " is not a regular file"));
    size_ = found.st_size;
    stream_.open(path, std::ios::binary);
    if (!stream_) fail(path + " cannot be read: " + std::strerror(errno));
    return true;
  }

  uint64_t size() const { return size_; }

  // Bytes that the file has, if it is no shorter than it was.
  std::string read(uint64_t from, uint64_t bytes) {
    std::string contents(bytes, '\0');
    stream_.seekg(from);
    if (!stream_.read(&contents[0], bytes)) fail(path_ + " cannot be read");
    return contents;
  }

  // A number of `bytes` bytes, the least first.
  uint64_t number(uint64_t from, size_t bytes) {
    const std::string contents = read(from, bytes);
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(contents[i]);
    return value;
  }

 private:
  std::string path_;
  std::ifstream stream_;
  uint64_t size_ = 0;
};

// ---- .npy --------------------------------------------------------------------------------------

// The header of a .npy file of format 1, 2 or 3, and where elements begin.
inline Value npy_header(const std::string& path, File& file, uint64_t& first) {
  if (file.size() < 10 || file.read(0, 6) != "\x93NUMPY") fail(path + " is not a .npy file");
  const uint64_t version = file.number(6, 1), digits = version == 1 ? 2 : 4;
  if (version < 1 || version > 3)
    fail(path + ": expected format 1, 2 or 3 of .npy files, found " + std::to_string(version));
  first = 8 + digits;
  const uint64_t length = file.size() < first ? 0 : file.number(8, digits);
  if (length > MAX_HEADER) fail(path + " is not a .npy file: its header is too long");
  if (file.size() < first || file.size() - first < length)
    fail(path + " is cut in its header: it has " + std::to_string(file.size()) + " bytes");
  const std::string text = file.read(first, length);
  Header header(text);
  Value value;
  if (!header.read(value))
    fail(path + ": its header is damaged at byte " + std::to_string(first + header.at()));
  first += length;
  return value;
}

// The elements of a .npy file, which must be of this type and shape; false if there is no file.
inline bool npy_elements(const std::string& path, const Type& type, const Numbers& shape,
                         std::string& elements) {
  File file;
  uint64_t first = 0;
  if (!file.open(path)) return false;
  const Value header = npy_header(path, file, first);
  const Value *descr = header.find("descr"), *order = header.find("fortran_order"),
              *sizes = header.find("shape");
  Numbers found;
  if (!descr || !order || !sizes || !sizes->numbers(found))
    fail(path + ": its header does not tell descr, fortran_order and shape");
  if (descr->kind != Value::TEXT)
    fail(path + ": expected elements of type " + type.numpy + ", found some with fields");
  if (descr->text != type.numpy)
    fail(path + ": expected elements of type " + type.numpy + ", found " + plain(descr->text));
  if (order->text != "False")
    fail(path + ": expected elements in row-major order; save numpy.ascontiguousarray of them");
  if (found != shape)
    fail(path + ": expected the shape " + shown(shape) + ", found " + plain(shown(found)));
  const uint64_t expected = elements_bytes(type, shape), bytes = file.size() - first;
  if (bytes != expected)
    fail(path + ": expected " + std::to_string(expected) + " bytes of elements, found " +
         std::to_string(bytes));
  elements = file.read(first, bytes);
  return true;
}

inline void write_npy(const std::string& path, const Type& type, const Numbers& shape,
                      const std::string& elements) {
  std::ofstream stream(path, std::ios::binary);
  std::string header = std::string("{'descr': '") + type.numpy +
                       "', 'fortran_order': False, 'shape': " + shown(shape) + ", }";
  header += std::string(63 - (10 + header.size()) % 64, ' ') + "\n";
  const char length[] = {static_cast<char>(header.size() & 255),
                         static_cast<char>(header.size() >> 8)};
  stream.write("\x93NUMPY\x01\x00", 8).write(length, 2) << header << elements;
  stream.close();
  if (!stream) fail(path + " cannot be written: " + std::strerror(errno));
}

// ---- .bin --------------------------------------------------------------------------------------

// The elements of a file that has nothing else; false if there is no file.
inline bool bin_elements(const std::string& path, const Type& type, const Numbers& shape,
                         std::string& elements) {
  File file;
  if (!file.open(path)) return false;
  const uint64_t expected = elements_bytes(type, shape);
  if (file.size() != expected)
    fail(path + ": expected " + std::to_string(expected) + " bytes, found " +
         std::to_string(file.size()));
  elements = file.read(0, expected);
  return true;
}

// ---- .safetensors ------------------------------------------------------------------------------

// The tensors of a .safetensors file: 8 bytes with the length of its header, that, and elements.
class Weights {
 public:
  void open(const std::string& path) {
    path_ = path;
    if (!file_.open(path)) fail("there is no file " + path);
    const std::string size = std::to_string(file_.size());
    if (file_.size() < 8) fail(path + " is not a .safetensors file: it has " + size + " bytes");
    const uint64_t length = file_.number(0, 8);
    if (length > file_.size() - 8)
      fail(path + " is not a .safetensors file, or it is cut: it has " + size +
           " bytes, and says that its header alone has " + std::to_string(length));
    if (length > MAX_HEADER) fail(path + " is not a .safetensors file: its header is too long");
    first_ = 8 + length;
    const std::string text = file_.read(8, length);
    Header header(text);
    if (!header.read(header_) || header_.kind != Value::TABLE)
      fail(path + " is not a .safetensors file: its header is damaged at byte " +
           std::to_string(8 + header.at()));
    for (size_t i = 0; i < header_.keys.size(); i++)
      if (header_.keys[i] != "__metadata__") entry(header_.keys[i], header_.items[i]);
  }

  // The elements of a tensor, which must be of this type and shape; false if there is none.
  bool elements(const std::string& name, const Type& type, const Numbers& shape,
                std::string& elements) {
    const Value* told = header_.find(name);
    if (!told) return false;
    const Entry found = entry(name, *told);
    const std::string expected = path_ + ": expected " + name;
    if (found.dtype != type.safetensors)
      fail(expected + " of type " + type.safetensors + ", found " + plain(found.dtype));
    if (found.shape != shape)
      fail(expected + " of the shape " + shown(shape) + ", found " + plain(shown(found.shape)));
    const uint64_t bytes = elements_bytes(type, shape);
    if (found.bytes != bytes)
      fail(expected + " of " + std::to_string(bytes) + " bytes, found " +
           std::to_string(found.bytes));
    elements = file_.read(first_ + found.begin, bytes);
    return true;
  }

 private:
  struct Entry {
    std::string dtype;
    Numbers shape;
    uint64_t begin, bytes;  // where elements are, after the header
  };

  // What the header says of a tensor, whose elements the file has.
  Entry entry(const std::string& name, const Value& told) const {
    const Value *dtype = told.find("dtype"), *shape = told.find("shape"),
                *offsets = told.find("data_offsets");
    Entry entry;
    Numbers ends;
    if (!dtype || !shape || !offsets || !shape->numbers(entry.shape) || !offsets->numbers(ends) ||
        ends.size() != 2 || ends[0] > ends[1])
      fail(path_ + ": its header does not tell dtype, shape and data_offsets of " + plain(name));
    const uint64_t begin = ends[0], end = ends[1], there = file_.size() - first_;
    if (end > there)
      fail(path_ + " is cut: it has " + std::to_string(there) + " bytes of elements, and those of " +
           plain(name) + " end at byte " + std::to_string(end));
    entry.dtype = dtype->text;
    entry.begin = begin;
    entry.bytes = end - begin;
    return entry;
  }

  std::string path_;
  File file_;
  Value header_;
  uint64_t first_ = 0;
};

}  // namespace exported
