// Trains a small convolutional net on Fashion-MNIST through telensord, by the C++ client.
//
//   fashion_mnist [--epochs 3] [--batch-size 128] [--lr 0.002] [--data FOLDER] [--address unix:/path]
//
// The process holds no tensor: every op is a command to the server, and it waits only when a loss is read.
#include <zlib.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "client-cpp/optim.h"
#include "client-cpp/telensor.h"

namespace tt = telensor;

namespace {

// An idx file: a big-endian header of sizes, then bytes.
std::vector<uint8_t> ReadIdx(const std::string& path, std::vector<int64_t>* sizes) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot open %s: apt-get install dataset-fashion-mnist\n", path.c_str());
    std::exit(1);
  }
  uint8_t head[4];
  if (gzread(file, head, 4) != 4) std::exit(1);
  int64_t total = 1;
  for (int i = 0; i < head[3]; ++i) {
    uint8_t b[4];
    if (gzread(file, b, 4) != 4) std::exit(1);
    sizes->push_back(int64_t{b[0]} << 24 | b[1] << 16 | b[2] << 8 | b[3]);
    total *= sizes->back();
  }
  std::vector<uint8_t> data(static_cast<size_t>(total));
  if (gzread(file, data.data(), static_cast<unsigned>(total)) != total) std::exit(1);
  gzclose(file);
  return data;
}

// Images as (N, 1, 28, 28) of mean 0 and deviation 1, labels as int64: both on the server.
std::pair<tt::Tensor, tt::Tensor> Load(const std::string& folder, const std::string& part) {
  std::vector<int64_t> image_sizes, label_sizes;
  const std::vector<uint8_t> images = ReadIdx(folder + "/" + part + "-images-idx3-ubyte.gz", &image_sizes);
  const std::vector<uint8_t> labels = ReadIdx(folder + "/" + part + "-labels-idx1-ubyte.gz", &label_sizes);
  tt::Tensor x = tt::Tensor::FromData(images.data(), {image_sizes[0], 1, image_sizes[1], image_sizes[2]}, tt::DType::kUInt8);
  tt::Tensor y = tt::Tensor::FromData(labels.data(), {label_sizes[0]}, tt::DType::kUInt8);
  return {(tt::to(x, tt::DType::kFloat32) / 255.0 - 0.286) / 0.353, tt::to(y, tt::DType::kInt64)};
}

// A weight as PyTorch's layers start: uniform within 1 / sqrt(fan_in).
tt::Tensor Weight(const tt::IntArray& sizes, int64_t fan_in) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
  tt::Tensor w = tt::empty(sizes);
  tt::uniform_(w, -bound, bound);
  return w.requires_grad_();
}

class Net {
 public:
  Net()
      : parameters_{Weight({32, 1, 3, 3}, 9),    Weight({32}, 9),      Weight({64, 32, 3, 3}, 288), Weight({64}, 288),
                    Weight({128, 3136}, 3136),   Weight({128}, 3136),  Weight({10, 128}, 128),      Weight({10}, 128)} {}

  tt::Tensor Forward(const tt::Tensor& images, bool training) const {
    const auto& p = parameters_;
    tt::Tensor x = tt::max_pool2d(tt::relu(tt::conv2d(images, p[0], p[1], 1, 1)), 2);
    x = tt::max_pool2d(tt::relu(tt::conv2d(x, p[2], p[3], 1, 1)), 2);
    x = tt::dropout(tt::relu(tt::linear(tt::flatten(x, 1), p[4], p[5])), 0.25, training);
    return tt::linear(x, p[6], p[7]);
  }
  const std::vector<tt::Tensor>& parameters() const { return parameters_; }

 private:
  std::vector<tt::Tensor> parameters_;
};

double Accuracy(const Net& net, const tt::Tensor& images, const tt::Tensor& labels) {
  tt::NoGradGuard no_grad;
  tt::Tensor right = tt::zeros({}, tt::DType::kInt64);
  constexpr int64_t kBatch = 1000;
  for (int64_t at = 0; at < images.size(0); at += kBatch) {
    const tt::Tensor guess = tt::argmax(net.Forward(tt::slice(images, 0, at, at + kBatch), false), 1);
    tt::add_(right, tt::sum(guess == tt::slice(labels, 0, at, at + kBatch)));
  }
  return 100.0 * static_cast<double>(right.item_int()) / static_cast<double>(images.size(0));
}

}  // namespace

int main(int argc, char** argv) try {
  int epochs = 3;
  int64_t batch = 128;
  double lr = 2e-3;  // at the start; it falls to nothing
  std::string folder = "/usr/share/datasets/fashion-mnist", address;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--epochs") epochs = std::atoi(argv[i + 1]);
    else if (flag == "--batch-size") batch = std::atoll(argv[i + 1]);
    else if (flag == "--lr") lr = std::atof(argv[i + 1]);
    else if (flag == "--data") folder = argv[i + 1];
    else if (flag == "--address") address = argv[i + 1];
    else return std::fprintf(stderr, "unknown flag %s\n", flag.c_str()), 2;
  }
  if (!address.empty()) tt::connect(address);
  tt::manual_seed(0);
  const auto [images, labels] = Load(folder, "train");
  const auto [test_images, test_labels] = Load(folder, "t10k");
  const Net net;
  tt::Adam adam(net.parameters(), lr);
  const int64_t count = images.size(0);
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    const tt::Tensor order = tt::randperm(count);
    tt::Tensor total = tt::zeros({});
    for (int64_t at = 0; at < count; at += batch) {
      const tt::Tensor chosen = tt::slice(order, 0, at, at + batch);
      const tt::Tensor scores = net.Forward(tt::index_select(images, 0, chosen), true);
      const tt::Tensor loss = tt::cross_entropy(scores, tt::index_select(labels, 0, chosen));
      adam.set_lr(lr * (1.0 - (static_cast<double>(epoch - 1) + static_cast<double>(at) / static_cast<double>(count)) / epochs));
      adam.zero_grad();
      loss.backward();
      adam.step();
      tt::add_(total, loss * static_cast<double>(std::min(batch, count - at)));
      if (at / batch % 50 == 49) {
        // The one wait of this many steps: keeps the bar honest.
        std::printf("\repoch %d/%d  %5.1f %%  loss %.4f ", epoch, epochs, 100.0 * static_cast<double>(at) / static_cast<double>(count), loss.item());
        std::fflush(stdout);
      }
    }
    const double mean_loss = total.item() / static_cast<double>(count);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("\repoch %d/%d  loss %.4f  test accuracy %.2f %%  %.0f images/s\n", epoch, epochs, mean_loss,
                Accuracy(net, test_images, test_labels), static_cast<double>(count) / seconds);
  }
  const tt::SessionStats stats = tt::session_stats();
  std::printf("%llu ops in %llu messages, %llu round trips blocked\n", static_cast<unsigned long long>(stats.ops),
              static_cast<unsigned long long>(stats.batches), static_cast<unsigned long long>(stats.blocked_round_trips));
  return 0;
} catch (const tt::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
