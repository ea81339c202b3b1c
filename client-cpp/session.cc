#include "client-cpp/session.h"

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "proto/core/in_place.h"
#include "proto/core/shape_util.h"

namespace telensor::client {
namespace {

std::mutex g_mu;
std::atomic<Session*> g_session{nullptr};
std::string g_server_folder;                    // guarded by g_mu
std::string g_client_name = "telensor-cpp 0.1.0";

// Set in a child that was forked while a session was open: asking for the process id costs as much as an op.
std::atomic<bool> g_forked{false};

thread_local bool t_grad_enabled = true;

void FillAttribute(const Value& v, v1::Attribute* out) {
  out->set_kind(static_cast<uint32_t>(v.kind()));
  switch (v.kind()) {
    case Value::Kind::kNone: break;
    case Value::Kind::kFloat: out->set_f(v.f()); break;
    case Value::Kind::kInts:
      for (int64_t i : v.ints()) out->add_ints(i);
      break;
    case Value::Kind::kFloats:
      for (double f : v.floats()) out->add_floats(f);
      break;
    case Value::Kind::kString: out->set_text(v.text()); break;
    default: out->set_i(v.i());
  }
}

// Whether some gradient formula reads saved data of this op.
bool SavesTensors(const OpSchema& schema) {
  for (int g = 0; g < schema.num_grads; ++g) {
    if ((schema.grads[g].saved_inputs | schema.grads[g].saved_outputs) != 0) return true;
  }
  return schema.composite() || schema.fused;
}

constexpr size_t kMaxListed = 200000;

bool CarriesGradient(const TensorState* t) { return t != nullptr && IsFloating(t->meta.dtype) && t->RequiresGrad(); }

uint64_t NextWalk() {
  static std::atomic<uint64_t> walks{0};
  return ++walks;
}

}  // namespace

bool GradEnabled() { return t_grad_enabled; }
void SetGradEnabled(bool on) { t_grad_enabled = on; }

Error ToError(const absl::Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kOutOfRange: return Error(ErrorKind::kIndex, message);
    case absl::StatusCode::kResourceExhausted: return Error(ErrorKind::kOutOfMemory, message);
    case absl::StatusCode::kUnimplemented: return Error(ErrorKind::kNotImplemented, message);
    case absl::StatusCode::kUnavailable: return Error(ErrorKind::kConnectionLost, message);
    default: return Error(ErrorKind::kRuntime, message);
  }
}

void Session::SetHints(const std::string& server_folder, const std::string& client_name) {
  std::lock_guard<std::mutex> lock(g_mu);
  g_server_folder = server_folder;
  g_client_name = client_name;
}

Session* Session::Existing() { return g_session.load(std::memory_order_acquire); }

absl::StatusOr<Session*> Session::Default() {
  if (Session* session = Existing()) return session;
  return Open("");
}

absl::StatusOr<Session*> Session::Open(const std::string& address) {
  std::lock_guard<std::mutex> lock(g_mu);
  if (Session* session = Existing()) {
    if (address.empty() || address == session->address_) return session;
    return absl::FailedPreconditionError(absl::StrCat("this process has a session with ", session->address_, " already"));
  }
  std::unique_ptr<Session> session(new Session());
  session->address_ = address;
  if (session->address_.empty()) {
    const char* named = std::getenv("TELENSOR_ADDR");
    if (named != nullptr) session->address_ = named;
  }
  if (session->address_.empty()) {
    TD_ASSIGN_OR_RETURN(session->server_, EmbeddedServer::Start(g_server_folder));
    session->address_ = session->server_->address();
  }
  TD_ASSIGN_OR_RETURN(session->connection_, Connection::Open(session->address_, g_client_name));
  TD_RETURN_IF_ERROR(session->MapOps());
  session->batcher_ = std::make_unique<OpBatcher>(session->connection_->OpenStream());
  pthread_atfork(nullptr, nullptr, &Session::AfterForkInChild);
  const char* sync = std::getenv("TELENSOR_SYNC");
  session->sync_ = sync != nullptr && sync[0] == '1';
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) return absl::InternalError("no random bytes from the kernel");
  TD_RETURN_IF_ERROR(session->Seed(seed));
  // Ends with the process: tensors may outlive every other static object.
  std::atexit([] {
    Session* last = Existing();
    if (last == nullptr || g_forked) return;
    last->batcher_->Flush();
    last->server_.reset();
  });
  g_session.store(session.get(), std::memory_order_release);
  return session.release();
}

absl::Status Session::MapOps() {
  const auto& theirs = connection_->session().op_signatures();
  const OpTable& table = OpTable::Get();
  if (theirs.empty()) return absl::OkStatus();
  absl::flat_hash_map<std::string, int> ids;
  for (int i = 0; i < theirs.size(); ++i) ids.emplace(theirs[i], i);
  for (int i = 0; i < table.size(); ++i) {
    auto it = ids.find(absl::StrCat(table.at(i).name, " ", table.at(i).signature));
    op_map_.push_back(it == ids.end() ? -1 : it->second);
  }
  return absl::OkStatus();
}

void Session::AfterForkInChild() {
  g_forked = true;
  Session* session = Existing();
  if (session == nullptr) return;
  if (session->server_ != nullptr) session->server_->AbandonInChild();
  session->connection_->AbandonInChild();
}

absl::StatusOr<v1::GetStatusResponse> Session::GetStatus() {
  TD_RETURN_IF_ERROR(CheckUsable());
  absl::StatusOr<v1::GetStatusResponse> response = connection_->GetStatus();
  TD_RETURN_IF_ERROR(OfTransfer(response.status()));
  return response;
}

BatcherStats Session::stats() { return CheckUsable().ok() ? batcher_->stats() : BatcherStats(); }

// A command must fit into a batch beside what waits already.
absl::Status Session::CheckListed(size_t n) {
  if (__builtin_expect(n <= kMaxListed, 1)) return absl::OkStatus();
  return InvalidArgument("one call takes at most ", kMaxListed, " tensors and numbers in lists, not ", n);
}

absl::Status Session::CheckUsable() const {
  if (__builtin_expect(!g_forked.load(std::memory_order_relaxed), 1)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this process was forked from one with a telensor session: its tensors and its connection belong to the parent. "
      "Make tensors in the parent, or start the process by 'spawn'.");
}

void Session::Release(uint64_t handle) {
  if (!g_forked.load(std::memory_order_relaxed)) batcher_->Release(handle);
}

absl::Status Session::CheckInPlaceAllowed(const TensorState* self) const {
  if (!t_grad_enabled) return absl::OkStatus();
  if (self->requires_grad && !self->grad_fn) {
    return AutogradError("a leaf Variable that requires grad is being used in an in-place operation.");
  }
  if (self->base && self->base->requires_grad && !self->base->grad_fn) {
    return AutogradError("a view of a leaf Variable that requires grad is being used in an in-place operation.");
  }
  return absl::OkStatus();
}

void Session::FillCommand(v1::Command* command, const OpSchema& schema, absl::Span<const Operand> inputs,
                          absl::Span<const Value* const> attrs, bool in_place) {
  command->set_kind(v1::Command::KIND_OP);
  command->set_op(op_map_.empty() ? schema.id : static_cast<uint32_t>(op_map_[schema.id]));
  command->set_flags((t_grad_enabled ? v1::COMMAND_FLAG_RECORD : 0) | (in_place ? v1::COMMAND_FLAG_IN_PLACE : 0));
  for (const Operand& in : inputs) {
    command->add_inputs(in.tensor != nullptr ? in.tensor->handle() : 0);
    if (in.tensor == nullptr && in.scalar.given()) FillAttribute(Value::Number(in.scalar), command->add_scalars());
  }
  int count = static_cast<int>(attrs.size());
  const OpTable& table = OpTable::Get();
  while (count > 0 && schema.attr_params[count - 1]->default_literal >= 0 &&
         (table.IsLiteral(attrs[count - 1]) ||
          *attrs[count - 1] == table.literal(schema.attr_params[count - 1]->default_literal))) {
    --count;
  }
  for (int i = 0; i < count; ++i) FillAttribute(*attrs[i], command->add_attributes());
}

absl::Status Session::AfterCommand() { return __builtin_expect(!sync_, 1) ? absl::OkStatus() : Synchronize(); }

absl::Status Session::Call(const OpSchema& schema, absl::Span<const Operand> inputs, absl::Span<const Value> attrs,
                           bool in_place, TensorRefs* results) {
  TD_RETURN_IF_ERROR(CheckUsable());
  in_place |= schema.inplace_only;
  if (__builtin_expect(!op_map_.empty() && op_map_[schema.id] < 0, 0)) {
    return absl::UnimplementedError(absl::StrCat("the server has no op ", schema.name, " with this client's signature"));
  }
  absl::InlinedVector<const TensorMeta*, 4> metas;
  absl::InlinedVector<Scalar, 4> scalars;
  metas.reserve(inputs.size());
  scalars.reserve(inputs.size());
  for (const Operand& in : inputs) {
    metas.push_back(in.tensor != nullptr ? &in.tensor->meta : nullptr);
    scalars.push_back(in.scalar);
  }
  const OpTable& table = OpTable::Get();
  absl::InlinedVector<const Value*, 6> pointers;
  Value device;
  size_t listed = inputs.size();
  for (int i = 0; i < schema.num_attrs; ++i) {
    const Value* v = i < static_cast<int>(attrs.size()) ? &attrs[i] : &table.literal(schema.attr_params[i]->default_literal);
    if (schema.num_inputs == 0 && schema.attr_params[i]->type == ParamType::kDevice && v->none()) {
      device = Value::Device(default_device());
      v = &device;
    }
    pointers.push_back(v);
  }
  for (const Value& v : attrs) listed += v.ints().size();
  TD_RETURN_IF_ERROR(CheckListed(listed));
  OpArgs args;
  args.schema = &schema;
  args.inputs = metas.data();
  args.scalars = scalars.data();
  args.num_inputs = static_cast<int>(inputs.size());
  args.attrs = pointers.data();
  args.default_float = default_dtype_;
  OpMetas out;
  TD_RETURN_IF_ERROR(InferMeta(args, &out));
  if (in_place) {
    TD_RETURN_IF_ERROR(CheckInPlace(args, out));
    TD_RETURN_IF_ERROR(CheckInPlaceAllowed(inputs[0].tensor));
  }
  if (out.identity) {
    results->push_back(TensorRef(inputs[0].tensor));
    return absl::OkStatus();
  }
  std::vector<TensorRef> held;
  if (__builtin_expect(batcher_->full(), 0)) {
    // Other threads go on meanwhile, and may drop what this one works on.
    for (const Operand& in : inputs) held.emplace_back(in.tensor);
    TD_RETURN_IF_ERROR(batcher_->AwaitRoom());
  }
  uint64_t seq;
  {
    OpBatcher::Appender append(batcher_.get());
    seq = append.seq();
    v1::Command* command = append.command();
    FillCommand(command, schema, inputs, pointers, in_place);
    if (__builtin_expect(listed + out.outputs.size() > 4, 0)) append.AddBytes(10 * (listed + out.outputs.size()));
    if (!in_place) {
      for (TensorMeta& meta : out.outputs) {
        const uint64_t handle = append.NewHandle();
        command->add_outputs(handle);
        TensorState* state = new TensorState(this, handle);
        state->meta = meta;
        results->push_back(TensorRef::Adopt(state));
      }
    }
    if (out.dynamic) command->set_flags(command->flags() | v1::COMMAND_FLAG_WANT_META);
  }
  if (in_place) results->push_back(TensorRef(inputs[0].tensor));
  Record(schema, inputs, in_place, results);
  if ((schema.kind == OpKind::kView || out.aliases) && schema.differentiable) {
    TensorState* self = inputs[0].tensor;
    for (TensorRef& r : *results) {
      r->base = self->base ? self->base : TensorRef(self);
      r->view_version = self->version();
    }
  }
  if (schema.mutates != 0) {
    for (const Operand& in : inputs) {
      if (in.tensor != nullptr) in.tensor->BumpVersion();
    }
  }
  if (out.dynamic) {
    TD_ASSIGN_OR_RETURN(const v1::DynamicResult dynamic, batcher_->WaitDynamic(seq));
    TD_ASSIGN_OR_RETURN((*results)[0]->meta.sizes, CheckedSizes({dynamic.sizes().begin(), dynamic.sizes().end()}));
    (*results)[0]->meta.strides = ContiguousStrides((*results)[0]->meta.sizes);
  }
  return AfterCommand();
}

void Session::Record(const OpSchema& schema, absl::Span<const Operand> inputs, bool in_place, TensorRefs* results) {
  bool record = false;
  if (t_grad_enabled && schema.differentiable) {
    for (const Operand& in : inputs) record |= CarriesGradient(in.tensor);
  }
  NodeRef node;
  if (record) {
    const uint32_t slots = schema.differentiable_inputs;
    bool any = false;
    NodeRef made = NodeRef::Adopt(new GradNode(&schema));
    for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
      const int slot = schema.InputSlot(i, static_cast<int>(inputs.size()));
      const bool carries = (slots >> slot & 1) != 0 && CarriesGradient(inputs[i].tensor);
      any |= carries;
      made->edges.push_back(carries ? inputs[i].tensor->Edge() : GradEdge());
    }
    made->saves = SavesTensors(schema);
    if (any) node = std::move(made);
  }
  if (in_place) {
    TensorState* self = inputs[0].tensor;
    self->BumpVersion();
    if (!node) return;
    if (self->base) {
      // The base was written through a view: its history goes on by this step.
      TensorState* base = self->base.get();
      node->title = "CopySlices";
      node->edges[0] = CarriesGradient(base) ? base->Edge() : GradEdge();
      base->grad_fn = node;
      base->output = 0;
      base->requires_grad = false;
      self->grad_fn = NodeRef();
      self->view_version = self->version() - 1;
    } else {
      self->grad_fn = std::move(node);
      self->output = 0;
      self->requires_grad = false;
    }
    return;
  }
  if (!node) return;
  for (size_t i = 0; i < results->size(); ++i) {
    TensorState* result = (*results)[i].get();
    if (!IsFloating(result->meta.dtype)) continue;
    result->grad_fn = node;
    result->output = static_cast<uint32_t>(i);
  }
}

// Everything below some roots, found without recursion.
struct Session::Walk {
  uint64_t number = NextWalk();
  std::vector<TensorRef> leaves;
  std::vector<NodeRef> nodes;
  absl::flat_hash_map<const void*, uint64_t> reached;  // a leaf, or a node with a bit for each output
};

absl::Status Session::WalkGraph(absl::Span<TensorState* const> roots, bool free_saved, Walk* walk) {
  const auto reach = [walk](const GradEdge& edge) {
    if (edge.leaf) {
      if (walk->reached.emplace(edge.leaf.get(), 1).second) walk->leaves.push_back(edge.leaf);
    } else if (edge.node) {
      walk->reached[edge.node.get()] |= uint64_t{1} << std::min<uint32_t>(edge.output, 63);
      if (edge.node->walk != walk->number) {
        edge.node->walk = walk->number;
        walk->nodes.push_back(edge.node);
      }
    }
  };
  for (size_t i = 0; i < roots.size(); ++i) {
    if (!CarriesGradient(roots[i])) {
      return AutogradError("element ", i, " of tensors does not require grad and does not have a grad_fn");
    }
    reach(roots[i]->Edge());
  }
  for (size_t i = 0; i < walk->nodes.size(); ++i) {
    GradNode* node = walk->nodes[i].get();
    if (node->freed) {
      return AutogradError(
          "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
          "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
          "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
          "saved tensors after calling backward.");
    }
    for (const GradEdge& edge : node->edges) reach(edge);
  }
  if (free_saved) {
    for (NodeRef& node : walk->nodes) node->freed |= node->saves;
  }
  return absl::OkStatus();
}

NodeRef Session::HistoryOf(const Walk& walk, absl::Span<TensorState* const> gradients) {
  NodeRef node = NodeRef::Adopt(new GradNode(nullptr));
  node->title = "GradBackward0";
  for (const TensorRef& leaf : walk.leaves) {
    node->edges.emplace_back();
    node->edges.back().leaf = leaf;
  }
  for (const NodeRef& below : walk.nodes) {
    node->edges.emplace_back();
    node->edges.back().node = below;
  }
  for (TensorState* gradient : gradients) {
    if (CarriesGradient(gradient)) node->edges.push_back(gradient->Edge());
  }
  return node;
}

void Session::NameGradient(OpBatcher::Appender* append, TensorState* tensor, const NodeRef& history,
                           std::vector<TensorRef>* replaced) {
  const uint64_t handle = append->NewHandle();
  append->command()->add_outputs(tensor->handle());
  append->command()->add_outputs(handle);
  TensorState* grad = new TensorState(this, handle);
  grad->meta = tensor->meta;
  grad->meta.offset = 0;
  grad->meta.strides = GradientStrides(tensor->meta, tensor->requires_grad);
  // With create_graph its history is the server's affair; here it leads to what this walk saw.
  grad->grad_fn = history;
  replaced->push_back(std::move(tensor->grad));
  tensor->grad = TensorRef::Adopt(grad);
}

absl::Status Session::RetainGrad(TensorState* tensor) {
  TD_RETURN_IF_ERROR(CheckUsable());
  if (!CarriesGradient(tensor)) return AutogradError("can't retain_grad on Tensor that has requires_grad=False");
  if (tensor->requires_grad || tensor->retains_grad) return absl::OkStatus();
  std::lock_guard<std::mutex> lock(retain_mu_);
  tensor->retains_grad = true;
  retaining_.push_back(tensor);
  return absl::OkStatus();
}

void Session::StopRetaining(TensorState* tensor) {
  std::lock_guard<std::mutex> lock(retain_mu_);
  retaining_.erase(std::remove(retaining_.begin(), retaining_.end(), tensor), retaining_.end());
}

std::vector<TensorState*> Session::Retained(const Walk& walk) {
  std::vector<TensorState*> out;
  for (TensorState* tensor : retaining_) {
    const GradEdge edge = tensor->Edge();
    const auto it = walk.reached.find(edge.node.get());
    if (edge.node && it != walk.reached.end() && (it->second >> std::min<uint32_t>(edge.output, 63) & 1) != 0) out.push_back(tensor);
  }
  return out;
}

absl::Status Session::Backward(TensorState* root, TensorState* gradient, bool retain_graph, bool create_graph) {
  TD_RETURN_IF_ERROR(CheckUsable());
  if (gradient == nullptr && root->meta.numel() != 1 && CarriesGradient(root)) {
    return AutogradError("grad can be implicitly created only for scalar outputs");
  }
  if (gradient != nullptr && gradient->meta.sizes != root->meta.sizes) {
    return AutogradError("Mismatch in shape: grad_output[0] has a shape of torch.Size(", gradient->meta.sizes.ToString(),
                         ") and output[0] has a shape of torch.Size(", root->meta.sizes.ToString(), ").");
  }
  const TensorRef held[] = {TensorRef(root), TensorRef(gradient)};
  TD_RETURN_IF_ERROR(AwaitRoom());
  Walk walk;
  TensorState* const roots[] = {root};
  TD_RETURN_IF_ERROR(WalkGraph(roots, !retain_graph && !create_graph, &walk));
  TD_RETURN_IF_ERROR(CheckListed(2 * walk.leaves.size()));
  const NodeRef history = create_graph ? HistoryOf(walk, {&gradient, 1}) : NodeRef();
  std::vector<TensorRef> replaced;
  {
    OpBatcher::Appender append(batcher_.get());
    v1::Command* command = append.command();
    command->set_kind(v1::Command::KIND_BACKWARD);
    append.AddBytes(16 * walk.leaves.size());
    command->set_flags((retain_graph ? v1::COMMAND_FLAG_RETAIN_GRAPH : 0) | (create_graph ? v1::COMMAND_FLAG_CREATE_GRAPH : 0));
    command->add_inputs(root->handle());
    command->add_inputs(gradient != nullptr ? gradient->handle() : 0);
    for (TensorRef& leaf : walk.leaves) {
      // A gradient that is there already is added to in place, under its own name; the server learns which it is, so
      // that a pass that fails can say so there.
      if (leaf->grad && !create_graph) {
        command->add_inputs(leaf->grad->handle());
        leaf->grad->BumpVersion();
        continue;
      }
      NameGradient(&append, leaf.get(), history, &replaced);
    }
    std::lock_guard<std::mutex> lock(retain_mu_);
    for (TensorState* result : Retained(walk)) NameGradient(&append, result, history, &replaced);
  }
  replaced.clear();  // releases take the batch's lock
  return AfterCommand();
}

absl::Status Session::Grad(absl::Span<TensorState* const> roots, absl::Span<TensorState* const> gradients,
                           absl::Span<TensorState* const> inputs, bool retain_graph, bool create_graph,
                           bool allow_unused, std::vector<TensorRef>* results) {
  TD_RETURN_IF_ERROR(CheckUsable());
  TD_RETURN_IF_ERROR(CheckListed(2 * (roots.size() + inputs.size())));
  std::vector<TensorRef> held;
  for (const auto& tensors : {roots, gradients, inputs}) {
    for (TensorState* t : tensors) held.emplace_back(t);
  }
  TD_RETURN_IF_ERROR(AwaitRoom());
  Walk walk;
  TD_RETURN_IF_ERROR(WalkGraph(roots, false, &walk));
  std::vector<bool> used;
  for (size_t i = 0; i < roots.size(); ++i) {
    if (gradients[i] == nullptr && roots[i]->meta.numel() != 1) {
      return AutogradError("grad can be implicitly created only for scalar outputs");
    }
  }
  for (TensorState* in : inputs) {
    if (!CarriesGradient(in)) return AutogradError("One of the differentiated Tensors does not require grad");
    const GradEdge edge = in->Edge();
    const void* key = edge.leaf ? static_cast<const void*>(edge.leaf.get()) : edge.node.get();
    auto it = walk.reached.find(key);
    const bool reached = it != walk.reached.end() && (edge.leaf || (it->second >> std::min<uint32_t>(edge.output, 63) & 1) != 0);
    if (!reached && !allow_unused) {
      return AutogradError(
          "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is "
          "the desired behavior.");
    }
    used.push_back(reached);
  }
  if (!retain_graph && !create_graph) {
    for (NodeRef& node : walk.nodes) node->freed |= node->saves;
  }
  const NodeRef history = create_graph ? HistoryOf(walk, gradients) : NodeRef();
  {
    OpBatcher::Appender append(batcher_.get());
    v1::Command* command = append.command();
    command->set_kind(v1::Command::KIND_GRAD);
    append.AddBytes(16 * (roots.size() + inputs.size()));
    command->set_flags((retain_graph ? v1::COMMAND_FLAG_RETAIN_GRAPH : 0) | (create_graph ? v1::COMMAND_FLAG_CREATE_GRAPH : 0) |
                       (allow_unused ? v1::COMMAND_FLAG_ALLOW_UNUSED : 0));
    command->add_sizes(static_cast<int64_t>(roots.size()));
    for (TensorState* root : roots) command->add_inputs(root->handle());
    for (TensorState* g : gradients) command->add_inputs(g != nullptr ? g->handle() : 0);
    for (size_t i = 0; i < inputs.size(); ++i) {
      command->add_inputs(inputs[i]->handle());
      if (!used[i]) {
        command->add_outputs(0);
        results->emplace_back();
        continue;
      }
      const uint64_t handle = append.NewHandle();
      command->add_outputs(handle);
      TensorState* grad = new TensorState(this, handle);
      grad->meta = inputs[i]->meta;
      grad->meta.offset = 0;
      grad->meta.strides = ContiguousStrides(grad->meta.sizes);
      grad->grad_fn = history;
      results->push_back(TensorRef::Adopt(grad));
    }
  }
  return AfterCommand();
}

}  // namespace telensor::client
