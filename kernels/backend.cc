#include "kernels/backend.h"

#include <dlfcn.h>
#include <elf.h>

#include <fstream>
#include <map>
#include <vector>

namespace telensor::rt {
namespace {

// The loader maps a file that was cut short all the same, and the process ends when it touches what is not there. What
// is no such file at all is left to the loader's own words.
bool IsCutShort(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff end = file.tellg();
  Elf64_Ehdr header;
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::string_view(reinterpret_cast<const char*>(header.e_ident), SELFMAG) != std::string_view(ELFMAG, SELFMAG) ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return false;
  }
  const auto size = static_cast<uint64_t>(end);
  const auto reaches_beyond = [size](uint64_t offset, uint64_t bytes) { return offset > size || bytes > size - offset; };
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  const uint64_t bytes = segments.size() * sizeof(Elf64_Phdr);
  if (reaches_beyond(header.e_phoff, bytes) ||
      reaches_beyond(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize)) {
    return true;
  }
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  if (!file.read(reinterpret_cast<char*>(segments.data()), static_cast<std::streamsize>(bytes))) return true;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && reaches_beyond(segment.p_offset, segment.p_filesz)) return true;
  }
  return false;
}

}  // namespace

absl::Status StatusFromCode(int code, std::string_view message) {
  const absl::string_view text(message.data(), message.size());
  switch (code) {
    case TT_OK: return absl::OkStatus();
    case TT_INVALID_ARGUMENT: return absl::InvalidArgumentError(text);
    case TT_OUT_OF_RANGE: return absl::OutOfRangeError(text);
    case TT_OUT_OF_MEMORY: return absl::ResourceExhaustedError(text);
    case TT_UNIMPLEMENTED: return absl::UnimplementedError(text);
    default: return absl::InternalError(text);
  }
}

absl::StatusOr<std::unique_ptr<Backend>> Backend::Create(const tt_backend* api) {
  if (api == nullptr) return absl::InternalError("the plug-in returned no backend");
  if (api->abi_version != TT_ABI_VERSION || api->size < sizeof(tt_backend)) {
    return absl::FailedPreconditionError(absl::StrCat("the plug-in speaks ABI ", api->abi_version, " with a struct of ",
                                                      api->size, " bytes; this server speaks ", TT_ABI_VERSION, " with ",
                                                      sizeof(tt_backend)));
  }
  std::unique_ptr<Backend> backend(new Backend(api));
  const OpTable& table = OpTable::Get();
  backend->kernels_.resize(table.size());
  // Several rows may share one kernel.
  std::multimap<std::string, OpId> rows;
  for (int i = 0; i < table.size(); ++i) {
    if (table.at(i).kernel != nullptr) rows.emplace(table.at(i).kernel, i);
  }
  for (int k = 0; k < api->num_kernels; ++k) {
    const tt_kernel& kernel = api->kernels[k];
    auto [begin, end] = rows.equal_range(kernel.op);
    if (begin == end) {
      return absl::FailedPreconditionError(absl::StrCat("backend ", api->name, ": no row of the op table claims kernel '",
                                                        kernel.op, "'"));
    }
    for (auto it = begin; it != end; ++it) {
      for (int t = 0; t < kNumDTypes; ++t) {
        if (kernel.dtypes & TT_DTYPE_BIT(t)) backend->kernels_[it->second][t] = kernel.run;
      }
    }
  }
  return backend;
}

absl::StatusOr<std::unique_ptr<Backend>> Backend::Open(const std::string& path) {
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat("plug-in path '", path, "' is not absolute"));
  }
  if (IsCutShort(path)) return absl::NotFoundError(absl::StrCat("cannot open the plug-in: ", path, " was cut short"));
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::NotFoundError(absl::StrCat("cannot open the plug-in: ", dlerror()));
  auto get = reinterpret_cast<tt_backend_get_fn>(dlsym(library, TT_BACKEND_SYMBOL));
  if (get == nullptr) {
    dlclose(library);
    return absl::FailedPreconditionError(absl::StrCat(path, " has no symbol ", TT_BACKEND_SYMBOL));
  }
  // Never closed: its kernels run until the process ends.
  return Create(get());
}

bool Backend::HasKernel(OpId op) const {
  for (tt_kernel_fn fn : kernels_[op]) {
    if (fn != nullptr) return true;
  }
  return false;
}

absl::Status Backend::Check(int code, const char* what) const {
  if (code == TT_OK) return absl::OkStatus();
  const char* why = api_->last_error != nullptr ? api_->last_error() : "";
  return StatusFromCode(code, absl::StrCat(api_->name, ": ", what, " failed: ", why));
}

}  // namespace telensor::rt
