// Compares a backend's kernels with the CPU's, every row both have, over dtypes, layouts and sizes.
//
//   gpu_conformance cpu              the CPU against itself: checks this program
//   gpu_conformance --plugin PATH    a plug-in against the CPU
//   -v lists every kernel; --only NAME runs one
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "tests/gpu/case.h"

namespace telensor::conformance {
namespace {

// Rows without samples of their own in the table, in the same words. A: float32, or float64 with float64.
const std::multimap<std::string, const char*> kMoreSamples = {
    {"rand", "5, 7"},
    {"randn", "[3, 100]"},
    {"randint", "-3, 12, [4, 5]"},
    {"randint", "0, 1, [0]"},
    {"randperm", "57"},
    {"randperm", "0"},
    {"uniform_", "T[3,5], -1, 2"},
    {"normal_", "T[3,5], 1, 0.5"},
    {"bernoulli", "T01[7,9]"},
    {"_contiguous", "T[3,4]"},
    {"_to_copy", "T[3,5], float32"},
    {"_to_copy", "T[3,5], float64"},
    {"_to_copy", "T[3,5], i8"},
    {"_to_copy", "T[3,5], i16"},
    {"_to_copy", "T[3,5], i32"},
    {"_to_copy", "T[3,5], i64"},
    {"_to_copy", "T[3,5], u8"},
    {"_to_copy", "T[3,5], b"},
    {"_to_copy", "T[3,5], f16"},
    {"_to_copy", "T[3,5], bf16"},
    {"_nonzero", "b[4]=1, 4"},
    {"_nonzero", "T[]=1, 1"},
    {"_nonzero", "T[]=0, 0"},
    {"_nonzero", "T[2,3,4]=1, 24"},
    {"_nonzero", "T[2,3,4]=0, 0"},
    {"_nonzero", "T[2,3]=1, 5"},
    {"_nonzero", "T[2,3]=1, 7"},
    {"_nonzero", "f32[300,101]=2, 30300"},
    {"cumsum", "T[3,4,5], 1"},
    {"cumsum", "T[9000], 0"},
    {"cumsum", "T[5,9001], -1"},
    {"cumsum", "T[5000,40], 0"},
    {"cumsum", "T[300,9], 0"},
    {"cumsum", "T[300,9], 1"},
    {"sort", "T[], 0"},
    {"sort", "T[3000]"},
    {"sort", "T[3,700,2], 1, True"},
    {"sort", "T[500,6], 0"},
    {"topk", "T[3,700,2], 50, 1"},
    {"topk", "T[700], 700, 0, False"},
    {"topk", "T[], 1, 0"},
    {"_embedding_backward", "T[3,4,2], i64[3,4]<5, 5, None"},
    {"_embedding_backward", "T[6,2], i64[6]<3, 5, 1"},
    {"_embedding_backward", "T[6,2], i32[6]<3, 5, -1"},
    {"_one_hot", "i64[3,4]<5, 6"},
    {"_conv2d_input_backward", "T[2,4,5,6], T[4,3,3,3], [2,3,5,6], 1, 1, 1, 1"},
    {"_conv2d_input_backward", "T[2,6,4,3], T[6,2,3,2], [2,4,7,7], 2, [1,0], 1, 2"},
    {"_conv2d_weight_backward", "T[2,4,5,6], T[2,3,5,6], [4,3,3,3], 1, 1, 1, 1"},
    {"_conv2d_weight_backward", "T[2,6,4,3], T[2,4,7,7], [6,2,3,2], 2, [1,0], 1, 2"},
    {"_max_pool2d", "T[2,3,6,6], 2, None, 0, 1, False"},
    {"_max_pool2d", "T[2,3,7,7], 3, 2, 1, 1, True"},
    {"_max_pool2d", "T[3,9,8], [2,3], 1, [1,0], 2, False"},
    {"_max_pool2d_backward", "T[2,3,3,3], i64[2,3,3,3]<36, [2,3,6,6]"},
    {"_avg_pool2d_backward", "T[2,3,3,3], [2,3,6,6], 2, None, 0, False, True, None"},
    {"_avg_pool2d_backward", "T[2,3,4,4], [2,3,7,7], 3, 2, 1, True, False, None"},
    {"_avg_pool2d_backward", "T[2,4,4], [2,7,7], 3, 2, 1, False, True, 5"},
    {"_adaptive_avg_pool2d_backward", "T[2,3,3,2], [2,3,7,5]"},
    {"_batch_norm", "T[4,3,2,2], A[3], A+[3], T[3], T[3], True, 0.1, 1e-5"},
    {"_batch_norm", "T[4,3,2,2], None, None, None, None, True, 0.1, 1e-5"},
    {"_batch_norm", "T[4,3], A[3], A+[3], A[3], A[3], False, 0.1, 1e-5"},
    {"_batch_norm", "T[0,3,2], A[3], A+[3], T[3], T[3], True, 0.1, 1e-5"},
    {"_batch_norm", "T[4,3], None, None, None, None, False, 0.1, 1e-5"},
    {"_batch_norm_backward", "T[4,3,2,2], T[4,3,2,2], T[3], A[3], A+[3], True, 1e-5"},
    {"_batch_norm_backward", "T[4,3], T[4,3], None, A[3], A+[3], False, 1e-5"},
    {"_layer_norm", "T[2,3,4], [4], T[4], T[4], 1e-5"},
    {"_layer_norm", "T[2,3,4], [3,4], None, None, 1e-5"},
    {"_layer_norm_backward", "T[2,3,4], T[2,3,4], [4], T[4], A[2,3,1], A+[2,3,1], 1e-5"},
    {"_layer_norm_backward", "T[2,3,4], T[2,3,4], [3,4], None, A[2,1,1], A+[2,1,1], 1e-5"},
    {"_dropout", "T[5,8], 0.3"},
    {"_dropout", "T[5,8], 1.0"},
    {"_softmax", "T[2,5], 1"},
    {"_softmax", "T[2,5,4], 1"},
    {"_softmax", "T[], 0"},
    {"_log_softmax", "T[2,5], -1"},
    {"_log_softmax", "T[2,5,4], 0"},
    {"_softmax_backward", "T[2,5], T01[2,5], 1"},
    {"_softmax_backward", "T[2,5,4], T01[2,5,4], 1"},
    {"_log_softmax_backward", "T[2,5,4], T1[2,5,4], 0"},
    {"_nll_loss", "T[4,3], i64[4]<3, None, -100, 'mean'"},
    {"_nll_loss", "T[4,3], i64[4]<3, T+[3], 1, 'sum'"},
    {"_nll_loss", "T[4,3], i64[4]<3, T+[3], 1, 'none'"},
    {"_nll_loss_backward", "T[], [4,3], i64[4]<3, None, -100, 'mean', T+[]"},
    {"_nll_loss_backward", "T[4], [4,3], i64[4]<3, T+[3], 1, 'none', T+[]"},
    {"_sgd_step_", "[T[3,4], T[5], T[3,4], T[5]], 2, 0.1, 0.0, 0.0, 0.01, False, False, False"},
    {"_sgd_step_", "[T[3,4], T[5], T[3,4], T[5], T[3,4], T[5]], 3, 0.1, 0.9, 0.1, 0.0, True, True, False"},
    {"_sgd_step_", "[T[3,4], T[3,4], T[3,4]], 3, 0.1, 0.9, 0.0, 0.0, False, False, True"},
    {"_adam_step_",
     "[T[3,4], T[5], T[3,4], T[5], T[3,4], T[5], T+[3,4], T+[5]], 4, 0.01, 0.9, 0.999, 1e-8, 0.1, False, False, False, "
     "3"},
    {"_adam_step_", "[T[3,4], T[3,4], T[3,4], T+[3,4], T+[3,4]], 5, 0.01, 0.9, 0.999, 1e-8, 0.1, True, True, True, 1"},
    {"_trunc_divide", "T[2,3], T+[3]"},
    {"_clamp_backward", "T[2,3], T[2,3], -1, 1"},
    {"_clamp_backward", "T[2,3], T[2,3], None, 0.5"},
    {"_relu_backward", "T[2,3], T[2,3]"},
    {"_tanh_backward", "T[2,3], T1[2,3]"},
    {"_sigmoid_backward", "T[2,3], T01[2,3]"},
    {"_silu_backward", "T[2,3], T[2,3]"},
    {"_gelu_backward", "T[2,3], T[2,3], 'none'"},
    {"_gelu_backward", "T[2,3], T[2,3], 'tanh'"},
    {"_leaky_relu_backward", "T[2,3], T[2,3], 0.2"},
    {"_softplus_backward", "T[2,3], T[2,3], 2, 1"},
    {"_prod", "T1[2,3], None, False"},
    {"_prod", "T+[2,3,4], [0,2], True"},
    {"_var", "T[3,4], None, 1, False"},
    {"_var", "T[3,4,2], [1], 0, True"},
    {"_norm", "T[3,4], 2, None, False"},
    {"_norm", "T[3,4], 1, [0], True"},
    {"_norm", "T[3,4], 0, [1], False"},
    {"_norm", "T[3,4], inf, None, False"},
    {"_norm", "T[3,4], -inf, [1], False"},
    {"_norm", "T[3,4], 3, [0, 1], False"},
    {"_slice_backward", "T[2,3], [5,3], 0, 1, 4, 2"},
    {"_slice_backward", "T[5,2], [5,3], 1, -2, None, 1"},
    {"_as_strided_backward", "T[2,3], [3,4], [4,1], 0, [2,3], [4,1], 1"},
    {"_as_strided_backward", "T[4,3], [6], [1], 0, [4,3], [1,1], 0"},
    // wrong index values, and division by zero: the same error from both, and nothing else breaks
    {"gather", "T[3,4], 1, i64[3,2]=4"},
    {"gather", "T[3,4], 1, i64[3,2]=-1"},
    {"index_select", "T[3,4], 0, i64[5]=3"},
    {"index", "T[3,4], [i64[2]=3]"},
    {"index", "T[3,4], [i64[2]=-3]"},
    {"index_put", "T[3,4], [i64[2]=-4], T[2,4], False"},
    {"embedding", "T[5,3], i64[4]=-1"},
    {"scatter", "T[3,4], 0, i64[1,4]=3, T[1,4]"},
    {"scatter_add", "T[3,4], 0, i64[2,4]=99, T[2,4]"},
    {"index_add", "T[3,4], 0, i64[5]=-1, T[5,4]"},
    {"_nll_loss", "T[4,3], i64[4]=3, None, -100, 'mean'"},
    {"floor_divide", "T[2,3], T[3]"},
    {"remainder", "T[2,3], 0"},
    {"_max_pool2d_backward", "T[2,3,3,3], i64[2,3,3,3]=36, [2,3,6,6]"},
    // duplicates in a fixed order
    {"index_put", "T[3,4], [i64[9]<3], T[9,4], False"},
    {"index_put", "T[3,4,2], [i64[7]<3, None, i64[7]<2], T[7,4], True"},
    {"scatter", "T[3,4], 0, i64[3,4]<2, T[3,4]"},
    {"scatter_add", "T[3,4], 1, i32[3,4]<2, T[3,4]"},
    {"index_add", "T[3,4], 1, i32[7]<4, T[3,7]"},
    // sizes that make a backend take its other paths
    {"mm", "T[33,65], T[65,17]"},
    {"mm", "T[1,64], T[64,1]"},
    {"bmm", "T[3,17,33], T[3,33,9]"},
    {"addmm", "T[1,5], T[7,3], T[3,5], beta=0"},
    {"sum", "T[1000,300], 0"},
    {"sum", "T[300,1000], 1"},
    {"sum", "T[400,700]"},
    {"mean", "T[7,33,129], [0, 2]"},
    {"max.dim", "T[100,257], 0"},
    {"argmax", "T[100,257]"},
    {"amax", "T[5,3000], 1"},
    {"_var", "T[300,400], None, 1, False"},
    {"_softmax", "T[3,5000], 1"},
    {"_softmax", "T[2,700,33], 1"},
    {"_layer_norm", "T[37,1030], [1030], T[1030], T[1030], 1e-5"},
    {"_layer_norm_backward", "T[37,1030], T[37,1030], [1030], T[1030], A1[37,1], A+[37,1], 1e-5"},
    {"_batch_norm", "T[8,5,33,17], A[5], A+[5], T[5], T[5], True, 0.1, 1e-5"},
    {"conv2d", "T[2,16,17,19], T[32,16,3,3], T[32], 2, 1"},
    {"add", "T[4099], T[4099]"},
    {"add", "T[3,1,5], T[1,4,1]"},
    {"mul", "T[2,1,3,1,4], T[1,5,1,2,1]"},
    {"_contiguous", "T[67,130]"},
};

struct Tolerance {
  double relative, absolute;
};
Tolerance ToleranceOf(DType t, bool elementwise) {
  switch (t) {
    case DType::kFloat64: return elementwise ? Tolerance{1e-12, 1e-13} : Tolerance{1e-9, 1e-10};
    case DType::kFloat32: return elementwise ? Tolerance{4e-6, 5e-7} : Tolerance{2e-5, 1e-5};
    case DType::kFloat16: return {4e-3, 1e-3};
    case DType::kBFloat16: return {3e-2, 8e-3};
    default: return {0, 0};
  }
}

// Words where the two differ, else empty.
std::string Compare(const HostTensor& got, const HostTensor& wanted, bool elementwise) {
  const DType dtype = wanted.meta.dtype;
  if (dtype < DType::kFloat16) {
    if (got.bytes == wanted.bytes) return "";
  }
  const std::vector<double> a = Elements(got), b = Elements(wanted);
  const Tolerance t = ToleranceOf(dtype, elementwise);
  // Sums are off by their largest terms' rounding, whatever is left of them.
  double scale = 0;
  size_t finite = 0;
  for (const double v : b) {
    if (std::isfinite(v)) scale += std::fabs(v), ++finite;
  }
  scale = finite > 0 && !elementwise ? scale / static_cast<double>(finite) : 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    const bool same =
        (a[i] == b[i] && (!elementwise || std::signbit(a[i]) == std::signbit(b[i]))) ||
        (a[i] != b[i] && std::fabs(a[i] - b[i]) <= t.absolute + t.relative * std::max(std::fabs(b[i]), scale));
    if (same) continue;
    char text[160];
    std::snprintf(text, sizeof(text), "element %zu of %zu is %.9g, the CPU's is %.9g", i, a.size(), a[i], b[i]);
    return text;
  }
  return "";
}

std::vector<DType> DTypesOf(const OpSchema& s) {
  const std::string words = s.dtypes != nullptr ? s.dtypes : "";
  std::vector<DType> out;
  const bool ints = words == "all" || words == "number" || words == "int_bool";
  if (words == "all" || words == "int_bool") out.push_back(DType::kBool);
  if (ints) out.insert(out.end(), {DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64});
  if (words != "int_bool") out.insert(out.end(), {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64});
  return out;
}

std::vector<Variation> VariationsOf(const OpSchema& s) {
  std::vector<Variation> out;
  for (const Layout layout : {Layout::kDense, Layout::kTransposed, Layout::kStepped, Layout::kExpanded}) {
    out.push_back({layout, Sizes::kAsWritten, false, false});
    if (s.elementwise) out.push_back({layout, Sizes::kAsWritten, false, true});
  }
  out.push_back({Layout::kDense, Sizes::kEmpty, false, false});
  out.push_back({Layout::kDense, Sizes::kAsWritten, false, false, true});
  const std::string name = s.name;
  const bool slow = name.find("conv") != std::string::npos || name.find("pool") != std::string::npos;
  if (!slow) {
    out.push_back({Layout::kDense, Sizes::kLarge, false, false});
    out.push_back({Layout::kTransposed, Sizes::kLarge, false, false});
  }
  // Rows that multiply have products beyond a float's range, which no two backends add up alike.
  const bool multiplies = slow || name.find("mm") != std::string::npos || name.find("linear") != std::string::npos ||
                          name.find("norm") != std::string::npos || name.find("step_") != std::string::npos;
  if (!s.elementwise && !multiplies) out.push_back({Layout::kDense, Sizes::kAsWritten, true, false});
  if (s.elementwise) {
    out.push_back({Layout::kDense, Sizes::kLarge, true, false});
    out.push_back({Layout::kStepped, Sizes::kLarge, true, false});
  }
  return out;
}

class Suite {
 public:
  Suite(Runner* cpu, Runner* other, std::string only, bool verbose)
      : cpu_(cpu), other_(other), only_(std::move(only)), verbose_(verbose) {}

  int Run() {
    const OpTable& table = OpTable::Get();
    for (int i = 0; i < table.size(); ++i) {
      const OpSchema& s = table.at(static_cast<OpId>(i));
      if (s.kernel == nullptr || (!only_.empty() && only_ != s.name)) continue;
      const tt_kernel *here = cpu_->Find(s.kernel), *there = other_->Find(s.kernel);
      if (there == nullptr) missing_.insert(s.kernel);
      if (here == nullptr || there == nullptr) continue;
      kernels_.insert(s.kernel);
      RunRow(s, *here, *there);
    }
    for (const std::string& k : kernels_) {
      if (counts_[k] > 0) continue;
      std::printf("FAILED %s: no call was made\n", k.c_str());
      ++failures_;
    }
    std::printf("%s against cpu: %zu kernels, %lld calls, %lld failures, %lld calls that both refuse\n",
                other_->api().name, kernels_.size(), calls_, failures_, refused_);
    if (!missing_.empty()) {
      std::printf("kernels of the table that %s lacks:", other_->api().name);
      for (const std::string& k : missing_) std::printf(" %s", k.c_str());
      std::printf("\n");
    }
    return failures_ == 0 && calls_ > 0 ? 0 : 1;
  }

 private:
  void RunRow(const OpSchema& s, const tt_kernel& here, const tt_kernel& there) {
    std::vector<std::string> samples;
    std::istringstream lines(s.samples != nullptr ? s.samples : "");
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) samples.push_back(line);
    }
    const auto more = kMoreSamples.equal_range(s.name);
    for (auto it = more.first; it != more.second; ++it) samples.push_back(it->second);
    const long long before = calls_, failed_before = failures_;
    for (const std::string& sample : samples) {
      std::vector<Argument> arguments;
      std::string error;
      if (!ParseSample(sample, &arguments, &error)) {
        Failed(s, sample, DType::kNone, "", error);
        continue;
      }
      for (const DType dtype : DTypesOf(s)) {
        for (const Variation& v : VariationsOf(s)) RunOne(s, here, there, sample, arguments, dtype, v);
      }
    }
    counts_[s.kernel] += calls_ - before;
    if (verbose_)
      std::printf("%-34s %6lld calls %s\n", s.name, calls_ - before, failures_ == failed_before ? "ok" : "FAILED");
  }

  void RunOne(const OpSchema& s, const tt_kernel& here, const tt_kernel& there, const std::string& sample,
              const std::vector<Argument>& arguments, DType dtype, const Variation& v) {
    std::string error;
    const auto c = Case::Make(s, arguments, dtype, v, ++seed_, &error);
    if (c == nullptr) {
      if (!error.empty()) Failed(s, sample, dtype, Describe(v), error);
      return;
    }
    const uint32_t bit = TT_DTYPE_BIT(static_cast<int>(c->key()));
    if ((here.dtypes & bit) == 0 || (there.dtypes & bit) == 0) return;
    ++calls_;
    const Outcome wanted = cpu_->Run(here, &c->call());
    std::vector<HostTensor> expected;
    for (const auto& t : c->tensors()) expected.push_back(*t);
    c->Reset();
    const Outcome got = other_->Run(there, &c->call());
    if (wanted.code != got.code) {
      Failed(s, sample, dtype, Describe(v),
             "status " + std::to_string(got.code) + " (" + got.error + "), the CPU's is " +
                 std::to_string(wanted.code) + " (" + wanted.error + ")");
      return;
    }
    if (wanted.code != TT_OK) {
      ++refused_;
      return;
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string words = Compare(*c->tensors()[i], expected[i], s.elementwise);
      if (words.empty()) continue;
      Failed(s, sample, dtype, Describe(v), words);
      return;
    }
  }

  void Failed(const OpSchema& s, const std::string& sample, DType dtype, const std::string& variation,
              const std::string& why) {
    if (++failures_ <= 100) {
      std::printf("FAILED %s(%s) dtype %d %s: %s\n", s.name, sample.c_str(), static_cast<int>(dtype), variation.c_str(),
                  why.c_str());
    }
  }

  Runner *cpu_, *other_;
  std::string only_;
  bool verbose_;
  std::set<std::string> kernels_, missing_;
  std::map<std::string, long long> counts_;
  long long calls_ = 0, failures_ = 0, refused_ = 0;
  uint32_t seed_ = 0;
};

int Main(int argc, char** argv) {
  std::string name, only;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--plugin") == 0 && i + 1 < argc) {
      name = argv[++i];
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      only = argv[++i];
    } else if (std::strcmp(argv[i], "-v") == 0) {
      verbose = true;
    } else {
      name = argv[i];
    }
  }
  if (name.empty()) {
    std::fprintf(stderr, "usage: gpu_conformance cpu | --plugin PATH [--only ROW] [-v]\n");
    return 2;
  }
  const tt_backend* api = OpenBackend(name);
  if (api == nullptr) return 1;
  Runner* cpu = Runner::Open(OpenBackend("cpu"));
  Runner* other = Runner::Open(api);
  if (cpu == nullptr || other == nullptr) return 1;
  const int code = Suite(cpu, other, only, verbose).Run();
  delete other;
  delete cpu;
  return code;
}

}  // namespace
}  // namespace telensor::conformance

int main(int argc, char** argv) { return telensor::conformance::Main(argc, argv); }
