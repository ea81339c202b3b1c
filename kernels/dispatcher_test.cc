#include "kernels/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/fault/fault_backend.h"
#include "proto/core/half.h"

namespace telensor::rt {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

// A CPU, and a second device that the host must not reach into.
class DispatcherTest : public ::testing::Test {
 protected:
  static fault::Appearance Far() {
    fault::Appearance look;
    look.host_accessible = false;
    return look;
  }
  DispatcherTest()
      : far_backend_(CpuBackend(), Far()),
        cpu_(*Backend::Create(CpuBackend())),
        far_(*Backend::Create(far_backend_.api())),
        device_(*Device::Create(cpu_.get(), 0, 0, 0)),
        far_device_(*Device::Create(far_.get(), 0, 1, 0)),
        context_({device_.get(), far_device_.get()}, &budget_),
        dispatcher_(&context_) {}

  Tensor Make(const std::vector<double>& values, const Ints& sizes, DType dtype = DType::kFloat32, DeviceIndex device = 0) {
    TensorMeta meta;
    meta.dtype = dtype;
    meta.device = device;
    meta.sizes = Dims(sizes);
    meta.strides = ContiguousStrides(meta.sizes);
    const Tensor t = *dispatcher_.Empty(meta);
    for (size_t i = 0; i < values.size(); ++i) {
      switch (dtype) {
        case DType::kFloat32: static_cast<float*>(t->data())[i] = static_cast<float>(values[i]); break;
        case DType::kFloat64: static_cast<double*>(t->data())[i] = values[i]; break;
        case DType::kInt64: static_cast<int64_t*>(t->data())[i] = static_cast<int64_t>(values[i]); break;
        case DType::kFloat16: static_cast<uint16_t*>(t->data())[i] = FloatToHalfBits(static_cast<float>(values[i])); break;
        default: static_cast<uint8_t*>(t->data())[i] = static_cast<uint8_t>(values[i]);
      }
    }
    return t;
  }
  static Operand In(const Tensor& t) { return {t.get(), {}}; }
  static Operand In(double v) { return {nullptr, Scalar(v)}; }
  static Operand In(int v) { return {nullptr, Scalar(v)}; }

  absl::StatusOr<TensorList> TryAll(const char* name, const std::vector<Operand>& in, const std::vector<Value>& attrs = {},
                                    bool in_place = false) {
    const OpSchema& schema = *OpTable::Get().Find(name);
    return dispatcher_.Call(schema, in, OpTable::Get().WithDefaults(schema, attrs), in_place);
  }
  Tensor Op(const char* name, const std::vector<Operand>& in, const std::vector<Value>& attrs = {}) {
    absl::StatusOr<TensorList> out = TryAll(name, in, attrs);
    EXPECT_TRUE(out.ok()) << name << ": " << out.status();
    return out.ok() ? (*out)[0] : nullptr;
  }
  absl::Status Do(const char* name, const std::vector<Operand>& in, const std::vector<Value>& attrs = {}) {
    return TryAll(name, in, attrs, true).status();
  }
  Tensor Slice(const Tensor& t, int64_t dim, int64_t start, int64_t end, int64_t step = 1) {
    return Op("slice", {In(t)}, {Value::Int(dim), Value::Int(start), Value::Int(end), Value::Int(step)});
  }
  // Row-major elements of any tensor, as doubles.
  std::vector<double> Values(const Tensor& t) {
    const Tensor wide = *dispatcher_.Converted(t.get(), DType::kFloat64, 0);
    const double* data = static_cast<const double*>(wide->data());
    return {data, data + wide->meta().numel()};
  }

  MemoryBudget budget_{MemoryBudget::kUnlimited, "budget"};
  fault::FaultBackend far_backend_;
  std::unique_ptr<Backend> cpu_, far_;
  std::unique_ptr<Device> device_, far_device_;
  ExecutionContext context_;
  Dispatcher dispatcher_;
};

TEST_F(DispatcherTest, ViewsShareTheStorageAndOneBase) {
  const Tensor x = Make({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor t = Op("t", {In(x)});
  EXPECT_EQ(t->storage().get(), x->storage().get());
  EXPECT_EQ(t->base().get(), x.get());
  const Tensor row = Slice(t, 0, 1, 3);
  EXPECT_EQ(row->base().get(), x.get()) << "never itself a view";
  EXPECT_THAT(Values(row), ElementsAre(2, 5, 3, 6));
  EXPECT_EQ(row->meta().offset, 1);
  EXPECT_FALSE(Op("detach", {In(x)})->base()) << "what is written through it is nobody's gradient";
  EXPECT_EQ(budget_.used(), 512u);
}

TEST_F(DispatcherTest, PromotesOperandsToTheComputeDType) {
  const Tensor i = Make({1, 2}, {2}, DType::kInt64), h = Make({0.5, 1.5}, {2}, DType::kFloat16);
  const Tensor f = Make({10, 20}, {2}), d = Make({3}, {}, DType::kFloat64), b = Make({1, 0}, {2}, DType::kBool);
  EXPECT_EQ(Op("add", {In(i), In(h)})->meta().dtype, DType::kFloat16);
  EXPECT_THAT(Values(Op("add", {In(i), In(h)})), ElementsAre(1.5, 3.5));
  EXPECT_EQ(Op("mul", {In(f), In(d)})->meta().dtype, DType::kFloat32) << "a 0-dim tensor is like a number";
  EXPECT_THAT(Values(Op("mul", {In(f), In(d)})), ElementsAre(30, 60));
  EXPECT_THAT(Values(Op("add", {In(b), In(i)})), ElementsAre(2, 2));
  EXPECT_EQ(Op("add", {In(i), In(0.5)})->meta().dtype, DType::kFloat32);
  EXPECT_THAT(Values(Op("div", {In(i), In(2)})), ElementsAre(0.5, 1));
  EXPECT_EQ(Op("lt", {In(i), In(h)})->meta().dtype, DType::kBool);
  EXPECT_THAT(Values(Op("lt", {In(i), In(h)})), ElementsAre(0, 0));
}

TEST_F(DispatcherTest, InPlaceKeepsDTypeTensorAndCountsTheWrite) {
  const Tensor x = Make({1, 2, 3}, {3});
  ASSERT_TRUE(Do("add", {In(x), In(Make({1, 1, 1}, {3}, DType::kInt64))}).ok());
  EXPECT_THAT(Values(x), ElementsAre(2, 3, 4));
  EXPECT_EQ(x->storage()->version(), 1u);
  const Tensor h = Make({1, 2, 3}, {3}, DType::kFloat16);
  ASSERT_TRUE(Do("add", {In(h), In(x)}).ok()) << "computed in float32, kept in float16";
  EXPECT_EQ(h->meta().dtype, DType::kFloat16);
  EXPECT_THAT(Values(h), ElementsAre(3, 5, 7));
  const Tensor i = Make({1, 2, 3}, {3}, DType::kInt64);
  EXPECT_THAT(std::string(Do("add", {In(i), In(x)}).message()), HasSubstr("result type Float can't be cast"));
  EXPECT_EQ(i->storage()->version(), 0u);
}

TEST_F(DispatcherTest, InPlaceWritesThroughStrides) {
  const Tensor x = Make({0, 1, 2, 3, 4, 5}, {2, 3});
  ASSERT_TRUE(Do("mul", {In(Slice(x, 1, 0, 3, 2)), In(10)}).ok());
  EXPECT_THAT(Values(x), ElementsAre(0, 1, 20, 30, 4, 50));
  ASSERT_TRUE(Do("copy_", {In(Op("t", {In(x)})), In(Make({1, 2}, {2}))}).ok());
  EXPECT_THAT(Values(x), ElementsAre(1, 1, 1, 2, 2, 2));
}

TEST_F(DispatcherTest, OverlappingOperandsAreReadBeforeTheyAreWritten) {
  std::vector<double> numbers(2000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Tensor x = Make(numbers, {2000});
  ASSERT_TRUE(Do("add", {In(Slice(x, 0, 1, 2000)), In(Slice(x, 0, 0, 1999))}).ok());
  const std::vector<double> got = Values(x);
  for (size_t i = 1; i < got.size(); ++i) ASSERT_EQ(got[i], 2 * static_cast<double>(i) - 1);
  const Tensor square = Make({1, 2, 3, 4}, {2, 2});
  ASSERT_TRUE(Do("add", {In(square), In(Op("t", {In(square)}))}).ok());
  EXPECT_THAT(Values(square), ElementsAre(2, 5, 5, 8));
  ASSERT_TRUE(Do("copy_", {In(Slice(x, 0, 0, 1999)), In(Slice(x, 0, 1, 2000))}).ok());
  EXPECT_EQ(Values(x)[0], 1);
  EXPECT_EQ(Values(x)[1997], 2 * 1998.0 - 1);
  ASSERT_TRUE(Do("mul", {In(square), In(square)}).ok()) << "element for element needs no copy";
  EXPECT_THAT(Values(square), ElementsAre(4, 25, 25, 64));
}

TEST_F(DispatcherTest, WhatLiesOnItselfIsNotWritten) {
  const Tensor x = Make({1}, {1});
  const Tensor wide = Op("expand", {In(x)}, {Value::Ints(Ints{3})});
  EXPECT_THAT(std::string(Do("add", {In(wide), In(1)}).message()), HasSubstr("more than one element of the written-to tensor"));
  EXPECT_THAT(Values(wide), ElementsAre(1, 1, 1));
}

TEST_F(DispatcherTest, AnIntegerDivisionByZeroWritesNothing) {
  for (const char* op : {"floor_divide", "remainder"}) {
    const Tensor x = Make({7, 8, 9}, {3}, DType::kInt64), zero = Make({2, 2, 0}, {3}, DType::kInt64);
    EXPECT_FALSE(Do(op, {In(x), In(zero)}).ok()) << op;
    EXPECT_THAT(Values(x), ElementsAre(7, 8, 9)) << op;
    EXPECT_EQ(x->storage()->version(), 0u);
  }
}

TEST_F(DispatcherTest, AnIndexOutOfRangeWritesNothing) {
  const Tensor x = Make({1, 2, 3, 4}, {4}), index = Make({0, 1, 9}, {3}, DType::kInt64), source = Make({5, 6, 7}, {3});
  EXPECT_EQ(Do("index_add", {In(x), In(index), In(source)}, {Value::Int(0)}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Do("scatter", {In(x), In(index), In(source)}, {Value::Int(0)}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Values(x), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(x->storage()->version(), 0u);
}

TEST_F(DispatcherTest, EmptyTensorsNeedNoMemory) {
  const Tensor none = Make({}, {0, 3}), row = Make({1, 2, 3}, {3});
  const size_t used = budget_.used();
  const Tensor sum = Op("add", {In(none), In(row)});
  EXPECT_EQ(sum->meta().sizes, (Dims{0, 3}));
  EXPECT_EQ(budget_.used(), used);
  EXPECT_THAT(Values(Op("sum", {In(none)}, {Value::Ints(Ints{0}), Value::Bool(false)})), ElementsAre(0, 0, 0));
  EXPECT_THAT(Values(Op("mm", {In(Make({}, {2, 0})), In(none)})), Each(0));
  EXPECT_TRUE(Do("add", {In(none), In(1)}).ok());
  EXPECT_EQ(Op("cat", {In(none), In(Make({1, 2, 3}, {1, 3}))}, {Value::Int(0)})->meta().sizes, (Dims{1, 3}));
  EXPECT_FALSE(TryAll("amax", {In(none)}, {Value::Ints(Ints{0}), Value::Bool(false)}).ok());
}

TEST_F(DispatcherTest, OutOfMemoryLeavesNothingBehind) {
  MemoryBudget small(4096, "session memory");
  ExecutionContext context({device_.get(), far_device_.get()}, &small);
  Dispatcher dispatcher(&context);
  TensorMeta meta;
  meta.dtype = DType::kFloat32;
  meta.sizes = {512};
  meta.strides = {1};
  const Tensor x = *dispatcher.Empty(meta);
  const Operand operands[] = {In(x)};
  const OpSchema& neg = *OpTable::Get().Find("neg");
  {
    const auto y = dispatcher.Call(neg, operands, {}, false);
    ASSERT_TRUE(y.ok());
    const auto z = dispatcher.Call(neg, operands, {}, false);
    EXPECT_EQ(z.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(small.used(), 4096u);
  }
  EXPECT_EQ(small.used(), 2048u);
  // An op with two results of which the second does not fit.
  const OpSchema& max = *OpTable::Get().Find("max.dim");
  meta.sizes = {1, 300};
  meta.strides = {300, 1};
  const Tensor wide = *dispatcher.Empty(meta);
  const Value zero = Value::Int(0), keep = Value::Bool(false);
  const Value* const attrs[] = {&zero, &keep};
  const Operand in[] = {In(wide)};
  const size_t used = small.used();
  EXPECT_EQ(dispatcher.Call(max, in, attrs, false).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(small.used(), used);
}

TEST_F(DispatcherTest, ARandomCallThatFailsTakesNoStep) {
  context_.Seed(3);
  const Value size = Value::Ints(Ints{4}), none, far = Value::Device(1);
  const auto draw = [&] { return TryAll("rand", {}, {size, none, far}); };
  const std::vector<double> first = Values((*draw())[0]);
  context_.Seed(3);
  far_backend_.Fail(fault::Point::kLaunch, 1, TT_INTERNAL, "lost");
  EXPECT_EQ(draw().status().message(), "lost");
  EXPECT_EQ(Values((*draw())[0]), first);
  EXPECT_NE(Values((*draw())[0]), first);
}

TEST_F(DispatcherTest, CopiesBetweenDevices) {
  const Tensor x = Make({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor far = *dispatcher_.Converted(Op("t", {In(x)}).get(), DType::kFloat64, 1);
  EXPECT_EQ(far->meta().device, 1);
  EXPECT_EQ(&far->device(), far_device_.get());
  EXPECT_THAT(Values(far), ElementsAre(1, 4, 2, 5, 3, 6)) << "and back";
  EXPECT_GT(far_backend_.calls(fault::Point::kCopy), 0) << "by copies, as the host may not reach there";
  ASSERT_TRUE(Do("copy_", {In(x), In(Op("t", {In(far)}))}).ok());
  EXPECT_THAT(Values(x), ElementsAre(1, 2, 3, 4, 5, 6));
  ASSERT_TRUE(Do("copy_", {In(far), In(Make({7, 8}, {2}))}).ok()) << "broadcast on the other side";
  EXPECT_THAT(Values(far), ElementsAre(7, 8, 7, 8, 7, 8));
  EXPECT_THAT(std::string(TryAll("add", {In(x), In(Op("t", {In(far)}))}).status().message()), HasSubstr("at least two devices"));
}

TEST_F(DispatcherTest, ACopyThatFailsIsAnErrorAndWritesNothing) {
  const Tensor x = Make({1, 2}, {2}), far = Make({3, 4}, {2}, DType::kFloat32, 1);
  for (const fault::Point point : {fault::Point::kCopy, fault::Point::kSynchronize}) {
    far_backend_.Fail(point, 1, TT_INTERNAL, "link down");
    EXPECT_THAT(std::string(Do("copy_", {In(x), In(far)}).message()), HasSubstr("link down"));
    EXPECT_THAT(Values(x), ElementsAre(1, 2));
    EXPECT_EQ(x->storage()->version(), 0u);
  }
  EXPECT_TRUE(Do("copy_", {In(x), In(far)}).ok());
  EXPECT_THAT(Values(x), ElementsAre(3, 4));
}

}  // namespace
}  // namespace telensor::rt
