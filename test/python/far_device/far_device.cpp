// Tensors on a device `cuda` that is no GPU: PyTorch for CPUs has no operations of that device, so
// these are its own. Memory is the host's; an operation computes on views of it that are the CPU's.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/Resize.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include <cstdlib>

namespace {

using at::Tensor;

const c10::Device kFar(c10::DeviceType::CUDA, 0);
const c10::Device kNear(c10::DeviceType::CPU);

bool capturing = false;

struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::Device exchangeDevice(c10::Device) const override { return kFar; }
  c10::Device getDevice() const override { return kFar; }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, kFar);
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, kFar);
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    size_t size = (bytes + 511) / 512 * 512;
    void *memory = size ? std::aligned_alloc(512, size) : nullptr;
    return {memory, memory, &std::free, kFar};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void *to, const void *from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
};
Allocator allocator;

// The memory of a storage as one of another device, which keeps it alive.
c10::Storage moved(const c10::Storage &storage, c10::Device device) {
  auto *kept = new c10::Storage(storage);
  auto drop = [](void *held) { delete static_cast<c10::Storage *>(held); };
  c10::DataPtr memory(storage.mutable_data(), kept, drop, device);
  c10::Allocator *own = device == kFar ? &allocator : c10::GetAllocator(c10::DeviceType::CPU);
  return c10::Storage(
      c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), storage.nbytes(), std::move(memory), own, true));
}

// The same elements as a tensor of another device.
Tensor moved(const Tensor &tensor, c10::Device device) {
  auto key = device == kFar ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  c10::DispatchKeySet keys(key);
  Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      moved(tensor.storage(), device), keys, tensor.dtype());
  auto *impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.is_conj()) made._set_conj(true);
  if (tensor.is_neg()) made._set_neg(true);
  return made;
}

// Random numbers: a generator of the device draws those of one of the CPU that it has.

struct Generator final : c10::GeneratorImpl {
  explicit Generator(at::Generator own)
      : c10::GeneratorImpl(kFar, c10::DispatchKeySet(c10::DispatchKey::CUDA)), own(std::move(own)) {}
  void set_current_seed(uint64_t seed) override { own.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { own.set_offset(offset); }
  uint64_t get_offset() const override { return own.get_offset(); }
  uint64_t current_seed() const override { return own.current_seed(); }
  uint64_t seed() override { return own.seed(); }
  void set_state(const c10::TensorImpl &state) override {
    own.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return own.unsafeGetGeneratorImpl()->get_state();
  }
  Generator *clone_impl() const override { return new Generator(own.clone()); }
  at::Generator own;
};

at::Generator new_generator() {
  return at::make_generator<Generator>(at::detail::createCPUGenerator(at::default_rng_seed_val));
}

const at::Generator &default_generator() {
  static auto *made = new at::Generator(new_generator());  // never freed: PyTorch ends before
  return *made;
}

struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  int getNumGPUs() const override { return 1; }
  bool isPinnedPtr(const void *) const override { return false; }
  const at::Generator &getDefaultGenerator(c10::DeviceIndex) const override {
    return default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return new_generator(); }
};
using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;
REGISTER_CUDA_HOOKS(CUDAHooks);

bool far(const Tensor &tensor) { return tensor.defined() && tensor.device() == kFar; }

Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>,
             std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   dtype.value_or(at::get_default_dtype_as_scalartype()), format);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                     std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                     std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(
      size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::CUDA),
      dtype.value_or(at::get_default_dtype_as_scalartype()));
}

Tensor &copy_(Tensor &self, const Tensor &source, bool) {
  TORCH_CHECK(!capturing || far(self) == far(source),
              "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU "
              "tensor is pinned.");
  Tensor to = far(self) ? moved(self, kNear) : self;
  to.copy_(far(source) ? moved(source, kNear) : source);
  return self;
}

Tensor &set_storage(Tensor &self, at::Storage source, int64_t offset, at::IntArrayRef size,
                    at::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  std::optional<at::IntArrayRef> strides;
  if (stride.data() != nullptr) strides = stride;
  at::native::resize_impl_cpu_(self.unsafeGetTensorImpl(), size, strides);
  return self;
}

const Tensor &resize_(const Tensor &self, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  at::native::resize_impl_cpu_(self.unsafeGetTensorImpl(), size, std::nullopt);
  return self;
}

at::Scalar local_scalar(const Tensor &self) {
  TORCH_CHECK(!capturing, "operation not permitted when stream is capturing");
  return moved(self, kNear).item();
}

bool without_cudnn(const Tensor &, const Tensor &, const Tensor &, const Tensor &, int64_t) {
  return false;
}

Tensor depthwise(const Tensor &self, const Tensor &weight, at::IntArrayRef,
                 const std::optional<Tensor> &bias, at::IntArrayRef stride, at::IntArrayRef padding,
                 at::IntArrayRef dilation) {
  std::optional<Tensor> own = bias && bias->defined() ? std::optional(moved(*bias, kNear)) : bias;
  return moved(at::conv2d(moved(self, kNear), moved(weight, kNear), own, stride, padding, dilation,
                          self.size(1)), kFar);
}

// Any other operation: on the CPU's views of the same memory.

bool mixes(const std::string &name) {
  return name.rfind("aten::index", 0) == 0 || name.rfind("aten::_index_put", 0) == 0 ||
         name.rfind("aten::_unsafe_index", 0) == 0;
}

struct Near {
  std::vector<std::pair<Tensor, Tensor>> known;  // those of the device, and the CPU's views
  bool some_near = false;

  Tensor of(const Tensor &tensor) {
    if (!far(tensor)) {
      if (tensor.defined() && tensor.dim() > 0) some_near = true;
      return tensor;
    }
    for (auto &[from, to] : known)
      if (from.is_same(tensor)) return to;
    known.emplace_back(tensor, moved(tensor, kNear));
    return known.back().second;
  }

  c10::IValue of(const c10::IValue &value) {
    if (value.isTensor()) return of(value.toTensor());
    if (value.isTensorList()) {
      c10::List<Tensor> made;
      for (const Tensor &tensor : value.toTensorList()) made.push_back(of(tensor));
      return made;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> made;
      for (const std::optional<Tensor> &tensor : value.toOptionalTensorList())
        made.push_back(tensor ? std::optional<Tensor>(of(*tensor)) : tensor);
      return made;
    }
    if (value.isGenerator() && value.toGenerator().device() == kFar)
      return static_cast<Generator *>(value.toGenerator().unsafeGetGeneratorImpl())->own;
    return value.isDevice() ? c10::IValue(kNear) : value;
  }

  Tensor back(const Tensor &tensor) {
    if (!tensor.defined()) return tensor;
    for (auto &[from, to] : known)
      if (to.is_same(tensor)) return from;
    return moved(tensor, kFar);
  }

  c10::IValue back(const c10::IValue &value) {
    if (value.isTensor()) return back(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<Tensor> made;
    for (const Tensor &tensor : value.toTensorList()) made.push_back(back(tensor));
    return made;
  }

  // What an operation has resized, it has in memory of its own.
  void resized() {
    for (auto &[from, to] : known) {
      if (from.sizes() == to.sizes() && from.strides() == to.strides()) continue;
      auto *impl = from.unsafeGetTensorImpl();
      impl->set_storage_keep_dtype(moved(to.storage(), kFar));
      impl->set_sizes_and_strides(to.sizes(), to.strides(), to.storage_offset());
    }
  }
};

void on_host(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  const auto &schema = op.schema();
  Near near;
  auto given = torch::jit::last(*stack, schema.arguments().size());
  std::vector<c10::IValue> arguments(given.begin(), given.end());
  torch::jit::drop(*stack, arguments.size());
  for (size_t n = 0; n < arguments.size(); ++n) {
    bool draws = schema.arguments()[n].type()->str() == "Generator?" && arguments[n].isNone();
    arguments[n] = near.of(draws ? c10::IValue(default_generator()) : arguments[n]);
  }
  TORCH_CHECK(near.known.empty() || !near.some_near || mixes(schema.name()),
              "Expected all tensors to be on the same device, but found at least two devices, "
              "cuda:0 and cpu! (", schema.name(), ")");
  for (auto &argument : arguments) torch::jit::push(*stack, std::move(argument));
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  size_t count = schema.returns().size();
  auto found = torch::jit::last(*stack, count);
  std::vector<c10::IValue> results(found.begin(), found.end());
  torch::jit::drop(*stack, count);
  near.resized();
  for (auto &result : results) torch::jit::push(*stack, near.back(result));
}

}  // namespace

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_host>()); }

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("copy_", &copy_);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("resize_", &resize_);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("_use_cudnn_ctc_loss.Tensor", &without_cudnn);
  m.impl("_conv_depthwise2d", &depthwise);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
}

extern "C" void far_device_start() { c10::SetAllocator(c10::DeviceType::CUDA, &allocator); }
extern "C" void far_device_capturing(int is) { capturing = is != 0; }
