#include "autograd/engine.h"

#include <gmock/gmock.h>

#include "autograd/autograd_testing.h"

namespace telensor::rt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

class EngineTest : public ::testing::Test, public AutogradWorld {};

TEST_F(EngineTest, SumsWhatMeets) {
  const Tensor x = Make({2, 3}, {2}, true);
  const Tensor y = Op("mul", {In(x), In(x)});
  const Tensor z = Op("add", {In(y), In(Op("mul", {In(y), In(3.0)}))});
  ASSERT_TRUE(Backward(Sum(z)).ok());
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(16, 24));
  EXPECT_THAT(Values(x), ElementsAre(2, 3));
}

TEST_F(EngineTest, AddsToTheGradientThatIsThere) {
  const Tensor x = Make({2}, {1}, true);
  ASSERT_TRUE(Backward(Op("mul", {In(x), In(5.0)})).ok());
  const Tensor first = GradOf(x);
  ASSERT_TRUE(Backward(Op("mul", {In(x), In(7.0)})).ok());
  EXPECT_EQ(GradOf(x).get(), first.get()) << "in place, so that who holds it sees it";
  EXPECT_THAT(Values(first), ElementsAre(12));
}

TEST_F(EngineTest, FitsGradientsToBroadcastInputs) {
  const Tensor row = Make({1, 2, 3}, {3}, true), column = Make({1, 2}, {2, 1}, true), one = Make({4}, {}, true);
  ASSERT_TRUE(Backward(Sum(Op("mul", {In(Op("add", {In(row), In(column)})), In(one)}))).ok());
  EXPECT_THAT(Values(GradOf(row)), ElementsAre(8, 8, 8));
  EXPECT_EQ(GradOf(column)->meta().sizes, (Dims{2, 1}));
  EXPECT_THAT(Values(GradOf(column)), ElementsAre(12, 12));
  EXPECT_EQ(GradOf(one)->meta().rank(), 0);
  EXPECT_THAT(Values(GradOf(one)), ElementsAre(21));
}

TEST_F(EngineTest, ASecondPassNeedsTheGraphRetained) {
  const Tensor x = Make({3}, {1}, true);
  const Tensor y = Op("mul", {In(x), In(x)});
  ASSERT_TRUE(Backward(y, {/*retain_graph=*/true, false}).ok());
  ASSERT_TRUE(Backward(y).ok());
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(12));
  const absl::Status status = Backward(y);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Trying to backward through the graph a second time"));
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(12)) << "a pass that fails adds nothing";
}

TEST_F(EngineTest, ANodeThatSavedNothingRunsAgain) {
  const Tensor x = Make({3}, {1}, true);
  const Tensor y = Op("add", {In(x), In(x)});
  ASSERT_TRUE(Backward(y).ok());
  EXPECT_TRUE(Backward(y).ok());
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(4));
}

TEST_F(EngineTest, APassFreesWhatItsGraphSaved) {
  const Tensor x = Make({3}, {1}, true);
  Tensor saved = Op("exp", {In(x)});
  const Tensor y = Op("mul", {In(saved), In(saved)});
  EXPECT_FALSE(saved->unique());
  ASSERT_TRUE(Backward(y).ok());
  EXPECT_TRUE(saved->unique());
}

TEST_F(EngineTest, CreateGraphGivesHigherDerivatives) {
  const Tensor x = Make({2}, {1}, true);
  Tensor y = Op("mul", {In(x), In(Op("mul", {In(x), In(x)}))});  // x^3
  for (const float wanted : {12.f, 12.f, 6.f}) {                 // 3x^2, 6x, 6
    absl::StatusOr<Tensor> g = Grad(y, x, {false, /*create_graph=*/true});
    ASSERT_TRUE(g.ok()) << g.status();
    EXPECT_THAT(Values(*g), ElementsAre(wanted));
    y = *g;
  }
  EXPECT_FALSE(GradOf(x)) << "leaves are not touched";
}

TEST_F(EngineTest, WithoutCreateGraphAGradientHasNoHistory) {
  const Tensor x = Make({2}, {1}, true);
  const absl::StatusOr<Tensor> g = Grad(Op("mul", {In(x), In(x)}), x);
  EXPECT_FALSE(RequiresGrad(g->get()));
  EXPECT_TRUE(recorder.recording()) << "as it was before";
}

TEST_F(EngineTest, GradOfAResultAndOfWhatIsNotReached) {
  const Tensor x = Make({2}, {1}, true), other = Make({1}, {1}, true);
  const Tensor middle = Op("mul", {In(x), In(x)});
  const Tensor y = Op("mul", {In(middle), In(5.0)});
  const Tensor inputs[] = {middle, other, x};
  const auto grads = engine.Grad({&y, 1}, {}, inputs, {});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_THAT(Values((*grads)[0]), ElementsAre(5));
  EXPECT_FALSE((*grads)[1]);
  EXPECT_THAT(Values((*grads)[2]), ElementsAre(20));
}

TEST_F(EngineTest, SeveralRootsWithGradients) {
  const Tensor x = Make({1, 2}, {2}, true);
  const Tensor roots[] = {Op("mul", {In(x), In(x)}), Op("mul", {In(x), In(3.0)})};
  const Tensor grads[] = {Make({1, 10}, {2}), Make({100, 1000}, {2})};
  ASSERT_TRUE(engine.Backward(roots, grads, {}).ok());
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(302, 3040));
  EXPECT_THAT(Values(grads[0]), ElementsAre(1, 10)) << "the caller's own";
}

TEST_F(EngineTest, RootsThatCannotBe) {
  const Tensor x = Make({1, 2}, {2}, true);
  EXPECT_THAT(std::string(Backward(Make({1}, {1})).message()), HasSubstr("does not require grad and does not have a grad_fn"));
  EXPECT_THAT(std::string(Backward(Op("mul", {In(x), In(x)})).message()), HasSubstr("implicitly created only for scalar outputs"));
  const Tensor y = Op("mul", {In(x), In(x)}), g = Make({1, 2, 3}, {3});
  EXPECT_THAT(std::string(engine.Backward({&y, 1}, {&g, 1}, {}).message()), HasSubstr("Mismatch in shape"));
  EXPECT_THAT(std::string(Grad(Sum(y), Make({1}, {1})).status().message()), HasSubstr("does not require grad"));
  EXPECT_FALSE(GradOf(x));
  EXPECT_TRUE(Backward(Sum(y)).ok()) << "nothing is left of the failed walks";
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(2, 4));
}

TEST_F(EngineTest, AnInPlaceWriteOfASavedTensorIsNoticedInPyTorchsWords) {
  const Tensor x = Make({1, 2}, {2}, true);
  const Tensor y = Op("mul", {In(x), In(2.0)});
  const Tensor z = Op("mul", {In(y), In(y)});
  ASSERT_TRUE(Do("add", {In(y), In(1.0)}).ok());
  EXPECT_EQ(std::string(Backward(Sum(z)).message()),
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            "[torch.FloatTensor [2]], which is output 0 of AddBackward0, is at version 1; expected version 0 instead. Hint: "
            "enable anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True).");
  EXPECT_FALSE(GradOf(x));
  const Tensor e = Op("exp", {In(x)});
  ASSERT_TRUE(Do("mul", {In(e), In(2.0)}).ok());  // exp saved its own output
  const Tensor w = Op("exp", {In(x)});
  const Tensor root = Sum(w);
  RecordingGuard guard(&recorder, false);
  ASSERT_TRUE(Do("mul", {In(w), In(2.0)}).ok());
  EXPECT_THAT(std::string(Backward(root).message()), HasSubstr("which is output 0 of ExpBackward0, is at version 1; expected version 0"));
}

TEST_F(EngineTest, AWriteOfWhatNobodySavedIsFine) {
  const Tensor x = Make({1, 2}, {2}, true);
  const Tensor y = Op("add", {In(x), In(1.0)});
  ASSERT_TRUE(Do("mul", {In(y), In(3.0)}).ok());
  ASSERT_TRUE(Backward(Sum(y)).ok());
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(3, 3));
}

TEST_F(EngineTest, WritesThroughViewsReachTheBase) {
  const Tensor x = Make({1, 2, 3, 4}, {4}, true);
  const Tensor y = Op("mul", {In(x), In(1.0)});
  const Tensor view = Op("slice", {In(y)}, {Value::Int(0), Value::Int(1), Value::Int(3), Value::Int(1)});
  ASSERT_TRUE(Do("mul", {In(view), In(10.0)}).ok());
  EXPECT_THAT(Values(y), ElementsAre(1, 20, 30, 4));
  ASSERT_TRUE(Backward(Sum(Op("mul", {In(y), In(view->base() ? y : x)}))).ok());
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(2, 400, 600, 8));
}

TEST_F(EngineTest, AChainOf100000OpsWalksAndIsFreedWithoutRecursion) {
  const Tensor x = Make({1}, {1}, true);
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = Op("mul", {In(y), In(1.0)});
  ASSERT_TRUE(Backward(y).ok());
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(1));
  const absl::StatusOr<Tensor> g = Grad(y, x);
  EXPECT_TRUE(g.ok()) << "of a number nothing was saved: " << g.status();
  y = nullptr;  // a recursion this deep does not fit a stack of 8 MiB
  EXPECT_EQ(AutogradMeta::Of(x.get()).accumulator, nullptr) << "the graph is gone";
}

TEST_F(EngineTest, AWideGraphIsVisitedOnceEach) {
  // 2^60 paths lead from the root to the leaf.
  const Tensor x = Make({1}, {1}, true);
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = Op("add", {In(y), In(y)});
  ASSERT_TRUE(Backward(y).ok());
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(1152921504606846976.f));
}

TEST_F(EngineTest, OutOfMemoryInThePassLeavesGradientsAndMemoryAsTheyWere) {
  AutogradWorld small(64 << 10);
  const Tensor x = small.Make(Floats(2048, 1), {2048}, true);
  ASSERT_TRUE(small.Backward(small.Sum(x)).ok());
  Tensor y = small.Op("tanh", {small.In(x)});
  Tensor root = small.Sum(small.Op("exp", {small.In(y)}));
  const Floats before = small.Values(small.GradOf(x));
  const size_t used = small.budget.used();
  std::vector<Tensor> filler;
  while (true) {
    TensorMeta meta = x->meta();
    meta.sizes = {128};
    absl::StatusOr<Tensor> t = small.recorder.dispatcher().Empty(meta);
    if (!t.ok()) break;
    filler.push_back(*t);
  }
  EXPECT_EQ(small.Backward(root, {true, false}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(small.Values(small.GradOf(x)), before);
  filler.clear();
  EXPECT_EQ(small.budget.used(), used);
  EXPECT_TRUE(small.Backward(root).ok()) << "a retained graph can be used again";
}

TEST_F(EngineTest, TheEndOfASessionFreesGraphsThatHoldThemselves) {
  Tensor keep;
  MemoryBudget* budget = nullptr;
  auto world = std::make_unique<AutogradWorld>();
  budget = &world->budget;
  {
    const Tensor x = world->Make({2}, {1}, true);
    ASSERT_TRUE(world->Backward(world->Op("mul", {In(x), In(x)}), {false, true}).ok());
    ASSERT_TRUE(RequiresGrad(GradOf(x).get()));
  }
  EXPECT_GT(budget->used(), 0u) << "a gradient with history and its leaf hold each other, as in PyTorch";
  world->recorder.~Recorder();
  EXPECT_EQ(budget->used(), 0u);
  new (&world->recorder) Recorder(&world->context);  // for the world's own end
}

}  // namespace
}  // namespace telensor::rt
