// Runs the blocks of a grid on OS threads and the threads of a block as fibers.
//
// A fiber switches only where a GPU thread may have to wait: at block barriers, at warp-wide
// operations (which meet per warp, never per block) and at mbarrier waits. A thread that meets
// none of them never gets a stack of its own: a carrier fiber runs one fresh thread after another
// until one blocks. Whoever cannot go on picks the next thread and switches straight to it.
// When nobody can go on, the block has deadlocked, and the message says who waits for what.
//
// The blocks of a cluster have an OS thread each, and take turns: where no thread of one can go on,
// another block does, which may release them.
//
// Kernels have no destructors, so a failed block is simply left: control returns to the worker's
// own stack, and all fiber stacks are free again.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "cluster.h"
#include "copies.h"
#include "dlc_host.h"
#include "fiber.h"

#define EXPORT __attribute__((visibility("default")))
// On the way of every switch: after one, the processor mispredicts each return on that way.
#define INLINE inline __attribute__((always_inline))

// ---- one worker: an OS thread that runs one block at a time ----------------------------------

namespace {

using dlc::BulkCopy;
using dlc::BulkStore;
using dlc::Copy;
using dlc::Launch;
using dlc::Meeting;
using dlc::Order;
using dlc::Team;

constexpr size_t kStackBytes = 256 << 10;  // compiler.py refuses kernels with larger frames
constexpr size_t kStackUsable = 192 << 10;
constexpr int kMaxThreads = 1024, kWarp = 32, kGroup = 128;

enum class State : uint8_t {
  fresh, running, barrier, cluster, meeting, group, registers, mbarrier, exited
};

struct Mbarrier {
  const void* address;
  unsigned count, pending;
  long long tx;
  bool phase;
  std::vector<BulkCopy> late;  // requested in this phase, not yet written
};

struct Thread {
  Context context;
  int index, stack;
  State state;
  int line;                    // of the block barrier
  Mbarrier* waits_for;
  unsigned parity;
  std::vector<Copy> copies;    // cp.async requests that have not landed, oldest first
  std::vector<size_t> groups;  // ends of the committed groups in `copies`
  std::vector<BulkStore> stores;  // of the tensor memory accelerator, oldest first
  int stored_groups;              // committed
};

struct Warp {
  uint32_t live, ready, met;
  uint32_t named;              // the lanes that meet
  Meeting kind;
  dlc::Together act;           // what the last one to come does for all, if anything
  unsigned round;
  uint64_t slot[2][kWarp];     // values of the last two meetings: a lane is at most one ahead
  uint32_t present[2];
};

// A product of matrices that a warpgroup has requested: what its threads came with.
struct Product {
  dlc::Together act;
  size_t bytes;            // of a thread
  std::vector<char> data;
  void run() {
    void* threads[kGroup];
    for (int t = 0; t < kGroup; ++t) threads[t] = data.data() + size_t(t) * bytes;
    act(threads);
  }
};

struct Warpgroup {
  int met = 0;
  Meeting kind = Meeting::none;
  int newest = 0;                // of a wait
  int registers = 0;             // of a thread, once they are set
  int wanted = 0;                // that the pool of its block does not have yet
  Product next{};                           // gathers what the threads come with
  std::vector<Product> open;                // requested since the last commit
  std::vector<std::vector<Product>> groups; // committed, oldest first
};

const char* name(Meeting kind) {
  switch (kind) {
    case Meeting::wgmma: return "wgmma";
    case Meeting::wgmma_fence: return "wgmma_fence()";
    case Meeting::wgmma_commit: return "wgmma_commit()";
    case Meeting::wgmma_wait: return "wgmma_wait()";
    case Meeting::set_registers: return "set_max_registers()";
    case Meeting::shuffle_xor: return "shuffle_xor";
    case Meeting::shuffle_down: return "shuffle_down";
    case Meeting::shuffle_idx: return "shuffle_idx";
    case Meeting::mma: return "mma";
    case Meeting::ldmatrix: return "ldmatrix";
    case Meeting::stmatrix: return "stmatrix";
    default: return "__syncwarp()";
  }
}

void carrier();

constexpr char kOther[] = "another block of the cluster has failed";

struct Worker {
  void (*kernel)(void**) = nullptr;
  void** args = nullptr;
  Launch launch{};
  dlc::Position* position = nullptr;  // of this OS thread
  Context main;
  Thread* current = nullptr;
  std::vector<Thread> threads = std::vector<Thread>(kMaxThreads);
  std::vector<char*> stacks;       // tops
  std::vector<int> free_stacks;
  Warp warps[kMaxThreads / kWarp];
  Warpgroup warpgroups[kMaxThreads / kGroup];
  std::vector<uintptr_t> windows;  // of addresses that matrix descriptors have told
  uint32_t ready_warps = 0;
  int live = 0, at_barrier = 0, barrier_line = 0;
  int free_registers = 0;          // that warpgroups of the block have given up
  std::vector<std::unique_ptr<Mbarrier>> mbarriers;
  uint64_t random = 0;
  std::unique_ptr<char, void (*)(void*)> shared{nullptr, free};
  size_t shared_size = 0;
  std::string failure;
  Team* team = nullptr;            // whose blocks read each other's shared memory, if any do
  Worker** members = nullptr;      // of the team
  int rank = 0;                    // of the block in its cluster
  int at_cluster = 0, met = 0;     // threads at a barrier of the cluster, and barriers before

  // ---- stacks: mapped once, reused from block to block and from launch to launch

  int take_stack() {
    if (free_stacks.empty()) {
      const size_t page = size_t(sysconf(_SC_PAGESIZE));
      void* base = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (base == MAP_FAILED || mprotect(base, page, PROT_NONE) != 0)
        fail("the system grants no further fiber stack (%s); launch with fewer worker threads",
             strerror(errno));
      // Tops at different offsets in a page, or the frames of all fibers share a few cache sets.
      const size_t colour = stacks.size() * 320 % 4096 & ~size_t(63);
      stacks.push_back(static_cast<char*>(base) + page + kStackBytes - colour);
      return int(stacks.size()) - 1;
    }
    const int stack = free_stacks.back();
    free_stacks.pop_back();
    return stack;
  }

  // ---- failure: the message of the block, and back to the worker's own stack

  [[noreturn]] __attribute__((format(printf, 2, 3))) void fail(const char* format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    failure = text;
    leave();
  }

  [[noreturn]] void fail_waiting(const char* what) {
    failure = what + who_waits();
    leave();
  }

  [[noreturn]] void leave() {
    if (!current) throw std::runtime_error(failure);  // no fiber has started
    Context left;
    left.to(main);
    __builtin_unreachable();
  }

  // "threads 0-31, 64 wait at …; threads 32-63 have exited"
  std::string who_waits() {
    std::vector<std::pair<std::string, std::vector<int>>> groups;
    for (int i = 0; i < launch.block; ++i) {
      const std::string what = status(threads[i]);
      auto group = std::find_if(groups.begin(), groups.end(),
                                [&](auto& g) { return g.first == what; });
      if (group == groups.end()) group = groups.insert(group, {what, {}});
      group->second.push_back(i);
    }
    std::string text;
    for (auto& [what, members] : groups) {
      text += text.empty() ? "threads " : "; threads ";
      for (size_t i = 0; i < members.size();) {
        size_t j = i;
        while (j + 1 < members.size() && members[j + 1] == members[j] + 1) ++j;
        text += (i ? ", " : "") + std::to_string(members[i]);
        if (j > i) text += "-" + std::to_string(members[j]);
        i = j + 1;
      }
      text += " " + what;
    }
    return text;
  }

  std::string status(const Thread& t) {
    const auto number = [](long long n) { return std::to_string(n); };
    switch (t.state) {
      case State::exited: return "have exited";
      case State::barrier: return "wait at __syncthreads() in line " + number(t.line);
      case State::cluster: return "wait at cluster_barrier()";
      case State::meeting:
        return std::string("wait at ") + name(warps[t.index / kWarp].kind) + " for their warp";
      case State::group:
        return std::string("wait at ") + name(warpgroups[t.index / kGroup].kind) +
               " for their warpgroup";
      case State::registers:
        return "wait for " + number(warpgroups[t.index / kGroup].wanted) + " registers, of which " +
               number(free_registers) + " are free";
      case State::mbarrier:
        return "wait for phase " + number(t.parity) + " of an mbarrier that misses " +
               number(t.waits_for->pending) + " arrivals and " + number(t.waits_for->tx) + " bytes";
      default: return "can run";
    }
  }

  // ---- who runs next

  INLINE unsigned choose(uint32_t mask) {
    if (launch.order == Order::forward) return __builtin_ctz(mask);
    if (launch.order == Order::reverse) return 31 - __builtin_clz(mask);
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    const unsigned r = random >> 32 & 31;
    return (__builtin_ctz(mask >> r | mask << (-r & 31)) + r) & 31;
  }

  INLINE void release(int warp, uint32_t lanes) {
    warps[warp].ready |= lanes;
    ready_warps |= 1u << warp;
  }

  INLINE Thread& pick() {
    while (!ready_warps) give_turn();
    const unsigned w = choose(ready_warps), lane = choose(warps[w].ready);
    if (!(warps[w].ready &= ~(1u << lane))) ready_warps &= ~(1u << w);
    return threads[w * kWarp + lane];
  }

  INLINE void enter(Thread& next) {
    current = &next;
    next.state = State::running;
    position->thread.x = unsigned(next.index);
  }

  INLINE void go(Context& from, Thread& next) {
    if (next.state == State::fresh) {
      next.stack = take_stack();
      next.context.make(stacks[next.stack], kStackUsable, carrier);
    }
    enter(next);
    from.to(next.context);
  }

  // Gives the processor away; returns once the current thread was released and picked again.
  INLINE void wait(State state) {
    Thread& self = *current;
    self.state = state;
    Thread& next = pick();
    if (&next == &self) enter(self);
    else go(self.context, next);
  }

  // ---- what threads wait for

  // So many first threads of the block meet; of warps, all or none.
  void barrier(int line, int named) {
    current->line = line;
    if (at_barrier && line != barrier_line) {
      current->state = State::barrier;
      fail_waiting("the threads have diverged at a barrier: ");
    }
    barrier_line = line;
    if (current->index >= named)
      fail("thread %d is not among the first %d, which meet", current->index, named);
    if (++at_barrier == named) {
      at_barrier = 0;
      for (int w = 0; w * kWarp < named; ++w) release(w, warps[w].live);
    }
    wait(State::barrier);
  }

  // All threads of the blocks of a cluster meet, but for those that have exited.
  void cluster_barrier() {
    if (!team) fail("thread %d is at a barrier of a cluster, which the kernel has not",
                    current->index);
    ++at_cluster;
    complete_cluster();
    wait(State::cluster);
  }

  void complete_cluster() {
    bool any = false;
    for (int m = 0; team && m < team->size; ++m) {
      if (members[m]->at_cluster != members[m]->live) return;
      any |= members[m]->live > 0;
    }
    for (int m = 0; any && m < team->size; ++m) {
      Worker& member = *members[m];
      member.at_cluster = 0;
      if (member.live) ++member.met;
      for (int w = 0; w * kWarp < launch.block; ++w)
        if (member.warps[w].live) member.release(w, member.warps[w].live);
    }
  }

  // The block of the cluster that goes on if this one cannot, or has ended: one that can, or else
  // one that has not ended, which then says that it cannot. -1 if there is none.
  int next_block() {
    for (const bool able : {true, false})
      for (int n = 1; n < team->size; ++n) {
        const int step = launch.order == Order::reverse ? team->size - n : n;
        const Worker& other = *members[(rank + step) % team->size];
        if (able ? other.ready_warps != 0 : other.live > 0) return other.rank;
      }
    return -1;
  }

  void give_turn() {
    const int other = team ? next_block() : -1;
    if (other < 0 || !members[other]->ready_warps) fail_waiting("the block cannot go on: ");
    if (!team->hand(rank, other)) fail("%s", kOther);
  }

  // The block of the cluster of that number.
  Worker& member(int block, const char* what) {
    if (!team || block < 0 || block >= team->size)
      fail("thread %d %s of block %d of its cluster, which is not there", current->index, what,
           block);
    return *members[block];
  }

  // The same in the shared memory of another block.
  char* at_block(const void* own, const Worker& other) {
    const char* const place = static_cast<const char*>(own);
    const uintptr_t offset = uintptr_t(place) - uintptr_t(shared.get());
    if (shared && offset < uintptr_t(launch.shared_bytes)) return other.shared.get() + offset;
    return other.position->static_shared + (place - position->static_shared);
  }

  const void* cluster_shared(const void* own, int block) {
    const Worker& other = member(block, "reads shared memory");
    if (block != rank && !met)
      fail("thread %d reads shared memory of block %d of its cluster, which may not have begun: no "
           "barrier of the cluster comes before", current->index, block);
    team->note(rank, block, met);
    return at_block(own, other);
  }

  // An mbarrier of a block of the cluster, where this one has its own.
  Mbarrier& mbarrier_at(const void* own, Worker& other) {
    if (!other.live)
      fail("thread %d uses an mbarrier of block %d of its cluster, which has ended", current->index,
           other.rank);
    Mbarrier* const found = other.find(at_block(own, other));
    if (!found || (&other != this && !met))
      fail("thread %d uses an mbarrier of block %d of its cluster, which may not be initialized: no "
           "barrier of the cluster comes between", current->index, other.rank);
    return *found;
  }

  // Every live lane of the warp that is named comes here; returns the round in which they met.
  INLINE unsigned meet(
      Meeting kind, uint64_t value, unsigned named = ~0u, dlc::Together act = nullptr) {
    const int w = current->index / kWarp, lane = current->index % kWarp;
    Warp& warp = warps[w];
    if (warp.met && (warp.kind != kind || warp.act != act))
      fail("threads of warp %d have diverged: lane %d is at %s, but another waits at %s", w, lane,
           name(kind), name(warp.kind));
    if (warp.met && warp.named != named)
      fail("thread %d names other lanes in %s than those that wait", current->index, name(kind));
    if (!(named >> lane & 1))
      fail("thread %d is not among the lanes that it names in %s", current->index, name(kind));
    const unsigned round = warp.round & 1;
    warp.kind = kind;
    warp.act = act;
    warp.named = named;
    warp.slot[round][lane] = value;
    warp.met |= 1u << lane;
    complete_meeting(w);
    wait(State::meeting);
    return round;
  }

  INLINE void complete_meeting(int w) {
    Warp& warp = warps[w];
    const uint32_t met = warp.met;
    if (!met || met != (warp.live & warp.named)) return;
    if (warp.act) {  // while all who came are here, and what they point to
      if (met != ~0u)
        fail("%s needs all 32 lanes of warp %d, and only %d came", name(warp.kind), w,
             __builtin_popcount(met));
      static_assert(sizeof(void*) == sizeof(uint64_t), "a slot holds a pointer");
      void* lanes[kWarp];
      memcpy(lanes, warp.slot[warp.round & 1], sizeof lanes);
      warp.act(lanes);
    }
    warp.present[warp.round++ & 1] = met;
    warp.met = 0;
    release(w, met);
  }

  // ---- what a warpgroup does together: the last thread to come does it

  template <class Act>
  void meet_group(Meeting kind, int newest, Act&& act) {
    const int g = current->index / kGroup;
    Warpgroup& group = warpgroups[g];
    if (group.met && (group.kind != kind || group.newest != newest))
      fail("threads of warpgroup %d have diverged: thread %d is at %s, but another waits at %s", g,
           current->index, name(kind), name(group.kind));
    group.kind = kind;
    group.newest = newest;
    if (++group.met == kGroup) {
      group.met = 0;
      act(group);
      for (int w = g * kGroup / kWarp; w < (g + 1) * kGroup / kWarp; ++w) release(w, ~0u);
    }
    wait(State::group);
  }

  // Requested products are computed at once, or where a wait is for them.
  void request(const void* mine, size_t bytes, dlc::Together act) {
    Product& next = warpgroups[current->index / kGroup].next;
    if (next.data.empty()) next = Product{act, bytes, std::vector<char>(kGroup * bytes)};
    if (next.act != act) fail("threads of a warpgroup have diverged at wgmma");
    memcpy(next.data.data() + size_t(current->index % kGroup) * bytes, mine, bytes);
    meet_group(Meeting::wgmma, 0, [&](Warpgroup& group) {
      if (launch.early) group.next.run();
      group.open.push_back(std::move(group.next));
      group.next = Product{};
    });
  }

  void commit_products() {
    meet_group(Meeting::wgmma_commit, 0, [](Warpgroup& group) {
      group.groups.push_back(std::move(group.open));
      group.open.clear();
    });
  }

  void finish_products(int newest) {
    meet_group(Meeting::wgmma_wait, newest, [&](Warpgroup& group) {
      while (group.groups.size() > size_t(newest)) {
        if (!launch.early)
          for (Product& product : group.groups.front()) product.run();
        group.groups.erase(group.groups.begin());
      }
    });
  }

  // A warpgroup gives registers to the pool of its block, or waits until that has enough.
  void set_registers(int before, int after) {
    const int g = current->index / kGroup;
    meet_group(Meeting::set_registers, after, [&](Warpgroup& group) {
      if (group.registers)
        fail("warpgroup %d sets its registers a second time, to %d from %d", g, after,
             group.registers);
      group.registers = after;
      if (after < before) free_registers += (before - after) * kGroup;
      else group.wanted = (after - before) * kGroup;
      deal_registers();
    });
    if (warpgroups[g].wanted) wait(State::registers);
  }

  void deal_registers() {
    for (int g = 0; g * kGroup < launch.block; ++g) {
      int& wanted = warpgroups[g].wanted;
      if (!wanted || wanted > free_registers) continue;
      free_registers -= wanted;
      wanted = 0;
      for (int t = g * kGroup; t < (g + 1) * kGroup; ++t)
        if (threads[t].state == State::registers) release(t / kWarp, 1u << t % kWarp);
    }
  }

  // PTX ISA, shfl.sync: a lane outside the segment gives the caller its own value.
  uint64_t shuffle(Meeting kind, uint64_t value, int argument, int width, unsigned named) {
    if (width < 1 || width > kWarp || (width & (width - 1)))
      fail("%s has width %d, which must be a power of two up to 32", name(kind), width);
    const int w = current->index / kWarp, lane = current->index % kWarp;
    const int first = lane & ~(width - 1), last = first + width - 1;
    const unsigned round = meet(kind, value, named);
    int source = kind == Meeting::shuffle_xor    ? lane ^ argument
                 : kind == Meeting::shuffle_down ? lane + argument
                                                 : first + (argument & (width - 1));
    if (source > last || source < 0) source = lane;
    if (!(warps[w].present[round] >> source & 1))
      fail("thread %d reads lane %d in %s, but that lane is not there", current->index, source,
           name(kind));
    return warps[w].slot[round][source];
  }

  Mbarrier* find(const void* address) {
    for (auto& barrier : mbarriers)
      if (barrier->address == address) return barrier.get();
    return nullptr;
  }

  Mbarrier& mbarrier(const void* address) {
    if (Mbarrier* const found = find(address)) return *found;
    fail("thread %d uses an mbarrier that was never initialized", current->index);
  }

  // Ends the phase once arrivals and bytes are in. Late copies land when somebody waits for them.
  void advance(Mbarrier& barrier) {
    if (barrier.pending) return;
    long long outstanding = barrier.tx;
    for (auto& copy : barrier.late) outstanding -= copy.bytes();
    const auto waits = [&](const Thread& t) {
      return t.state == State::mbarrier && t.waits_for == &barrier && t.parity == barrier.phase;
    };
    const auto end = threads.begin() + launch.block;
    if (outstanding || (!barrier.late.empty() && std::none_of(threads.begin(), end, waits))) return;
    for (auto& copy : barrier.late) copy.run();
    barrier.late.clear();
    barrier.tx = 0;
    for (auto thread = threads.begin(); thread != end; ++thread)
      if (waits(*thread)) {
        thread->state = State::running;
        release(thread->index / kWarp, 1u << thread->index % kWarp);
      }
    barrier.phase = !barrier.phase;
    barrier.pending = barrier.count;
  }

  // ---- asynchronous copies

  void finish_copies(size_t newest) {
    Thread& self = *current;
    if (self.groups.size() <= newest) return;
    const size_t done = self.groups.size() - newest, end = self.groups[done - 1];
    for (size_t i = 0; i < end; ++i) self.copies[i].run();
    self.copies.erase(self.copies.begin(), self.copies.begin() + long(end));
    self.groups.erase(self.groups.begin(), self.groups.begin() + long(done));
    for (size_t& group : self.groups) group -= end;
  }

  // Of all groups but the newest, boxes are read, or else written.
  void finish_stores(int newest, bool read) {
    Thread& self = *current;
    std::vector<BulkStore> left;
    for (BulkStore& store : self.stores) {
      const bool done = store.group < self.stored_groups - newest;
      if (done) store.read();
      if (done && !read) store.write();
      else left.push_back(std::move(store));
    }
    self.stores = std::move(left);
  }

  // ---- a block from its first thread to its last

  void run_block(int64_t block) {
    for (int i = 0; i < launch.block; ++i) {
      Thread& thread = threads[i];
      thread.index = i;
      thread.state = State::fresh;
      thread.copies.clear();
      thread.groups.clear();
      thread.stores.clear();
      thread.stored_groups = 0;
    }
    ready_warps = 0;
    for (int w = 0; w * kWarp < launch.block; ++w) {
      const int lanes = std::min(kWarp, launch.block - w * kWarp);
      warps[w].live = lanes == kWarp ? ~0u : (1u << lanes) - 1;
      warps[w].ready = warps[w].met = warps[w].round = 0;
      release(w, warps[w].live);
    }
    for (Warpgroup& group : warpgroups) group = Warpgroup{};
    windows.clear();
    live = launch.block;
    at_barrier = at_cluster = met = free_registers = 0;
    current = nullptr;
    mbarriers.clear();
    random = (launch.seed * 0x9e3779b97f4a7c15u ^ uint64_t(block + 1) * 0xd1342543de82ef95u) | 1;
    if (launch.shared_bytes) memset(shared.get(), 0xff, size_t(launch.shared_bytes));  // NaN
    position->block = {unsigned(block), 0, 0};
    if (!team || team->begin(rank, launch.order == Order::reverse ? team->size - 1 : 0))
      go(main, pick());
    else
      failure = kOther;
    if (failure.empty() && live) failure = "the scheduler lost threads";
    for (auto& barrier : mbarriers)
      if (failure.empty() && !barrier->late.empty())
        failure = "the block ends with tma_load requests that no mbarrier_wait completed";
    if (team) end_of_cluster();
    if (!failure.empty() && failure != kOther) {
      failure = "block " + std::to_string(block) + ": " + failure;
    }
    if (!failure.empty()) {
      free_stacks.clear();
      for (size_t i = 0; i < stacks.size(); ++i) free_stacks.push_back(int(i));
    }
  }

  void end_of_cluster() {
    if (!failure.empty()) team->fail();
    else if (!team->end(rank, met, next_block(), failure) && failure.empty()) failure = kOther;
  }

  // The current thread has returned from the kernel; who runs next, or null if it was the last.
  Thread* exit_current() {
    Thread& self = *current;
    if (!self.copies.empty())
      fail("thread %d exits with %zu asynchronous copies that no cp_async_wait completed",
           self.index, self.copies.size());
    if (!self.stores.empty())
      fail("thread %d exits with %zu tma_store requests that no tma_wait completed", self.index,
           self.stores.size());
    const Warpgroup& group = warpgroups[self.index / kGroup];
    bool unfinished = !group.open.empty();
    for (const auto& products : group.groups) unfinished |= !products.empty();
    if (unfinished)
      fail("thread %d exits with wgmma products that no wgmma_wait completed", self.index);
    self.state = State::exited;
    const int w = self.index / kWarp;
    warps[w].live &= ~(1u << self.index % kWarp);
    complete_meeting(w);
    --live;
    complete_cluster();
    return live ? &pick() : nullptr;
  }

  void prepare(void (*kernel)(void**), void** args, const Launch& launch) {
    this->kernel = kernel;
    this->args = args;
    this->launch = launch;
    failure.clear();
    if (shared_size < size_t(launch.shared_bytes)) {
      shared_size = (size_t(launch.shared_bytes) + 1023) & ~size_t(1023);
      shared.reset(static_cast<char*>(aligned_alloc(1024, shared_size)));
      if (!shared) throw std::bad_alloc();
    }
    position = &dlc_position;
    *position = {{0, 0, 0}, {0, 0, 0}, {unsigned(launch.block), 1, 1},
                    {unsigned(launch.grid), 1, 1}, shared.get(), nullptr};
  }
};

thread_local Worker* worker = nullptr;

// Where every fiber stack starts.
void carrier() {
  Worker& w = *worker;
  for (;;) {
    w.kernel(w.args);
    const int stack = w.current->stack;
    Thread* next = w.exit_current();
    if (next && next->state == State::fresh) {
      next->stack = stack;
      w.enter(*next);
      continue;
    }
    w.free_stacks.push_back(stack);
    if (next) w.enter(*next);
    Context left;
    left.to(next ? next->context : w.main);
  }
}

std::mutex idle_mutex;
std::vector<std::unique_ptr<Worker>> idle;  // between launches, with their stacks

std::unique_ptr<Worker> take_worker() {
  const std::lock_guard<std::mutex> lock(idle_mutex);
  if (idle.empty()) return std::make_unique<Worker>();
  auto result = std::move(idle.back());
  idle.pop_back();
  return result;
}

// The blocks of a launch, dealt over OS threads: one by one, or the clusters over teams.
struct Grid {
  void (*const kernel)(void**);
  void** const args;
  const Launch& launch;
  const int cluster;  // blocks
  const int workers;
  std::string failure;

  Grid(void (*kernel)(void**), void** args, const Launch& launch)
      : kernel(kernel), args(args), launch(launch), cluster(std::max(launch.cluster, 1)),
        workers(workers_of(launch)), failed(launch.grid), members(size_t(workers)) {
    for (int i = 0; cluster > 1 && i < workers; i += cluster)
      teams.push_back(std::make_unique<Team>(cluster));
  }

  // What one of the OS threads does.
  void work(int i) {
    auto mine = take_worker();
    worker = mine.get();
    const size_t team = size_t(i / cluster);
    mine->team = cluster > 1 ? teams[team].get() : nullptr;
    mine->members = members.data() + i / cluster * cluster;
    mine->rank = i % cluster;
    members[size_t(i)] = worker;
    std::string what;
    int64_t turn = 0;
    try {
      mine->prepare(kernel, args, launch);
      for (int64_t n = 0; what.empty() && (turn = turn_of(i, n)) < launch.grid; ++n) {
        mine->run_block(block_at(turn));
        what = mine->failure;
      }
    } catch (const std::exception& error) {
      what = error.what();
      if (mine->team) mine->team->fail();
    }
    if (mine->team) mine->team->depart();
    worker = nullptr;
    const std::lock_guard<std::mutex> lock(mutex);
    if (!what.empty()) {
      next = launch.grid;
      if (what != kOther && turn < failed) failed = turn, failure = what;
    }
    const std::lock_guard<std::mutex> idle_lock(idle_mutex);
    idle.push_back(std::move(mine));
  }

  // Ends all teams: there are only so many threads.
  void stop(int threads, const char* why) {
    for (size_t team = 0; team < teams.size(); ++team)
      teams[team]->fail(int(team + 1) * cluster > threads);
    const std::lock_guard<std::mutex> lock(mutex);
    failed = -1;
    failure = why;
  }

 private:
  std::atomic<int64_t> next{0};
  int64_t failed;  // the first block, by turns
  std::mutex mutex;
  std::vector<Worker*> members;
  std::vector<std::unique_ptr<Team>> teams;

  static int workers_of(const Launch& launch) {
    if (launch.cluster <= 1) return int(std::min<int64_t>(launch.workers, launch.grid));
    const int teams = std::max(launch.workers / launch.cluster, 1);
    return int(std::min<int64_t>(teams, launch.grid / launch.cluster)) * launch.cluster;
  }

  // The turn of the nth block that an OS thread runs; those of a team run the same clusters.
  int64_t turn_of(int i, int64_t n) {
    if (teams.empty()) return next++;
    return (i / cluster + n * int64_t(teams.size())) * cluster + i % cluster;
  }

  int64_t block_at(int64_t turn) const {
    if (launch.order != Order::reverse) return turn;
    return launch.grid - cluster - turn / cluster * cluster + turn % cluster;
  }
};

}  // namespace

// ---- what kernels and runtime.py call ----------------------------------------------------------

extern "C" {

EXPORT __thread dlc::Position dlc_position;

EXPORT void dlc_trap(const char* message) {
  worker->fail("thread %d: %s", worker->current->index, message);
}

EXPORT void dlc_barrier(int line) { worker->barrier(line, worker->launch.block); }

EXPORT void dlc_barrier_among(int line, int threads) { worker->barrier(line, threads); }
EXPORT void dlc_cluster_barrier() { worker->cluster_barrier(); }
EXPORT const void* dlc_cluster_shared(const void* own, int block) {
  return worker->cluster_shared(own, block);
}
EXPORT void dlc_syncwarp() { worker->meet(Meeting::syncwarp, 0); }

EXPORT void dlc_together(Meeting kind, void* mine, dlc::Together act) {
  worker->meet(kind, reinterpret_cast<uintptr_t>(mine), ~0u, act);
}

EXPORT void dlc_wgmma(const void* mine, size_t bytes, dlc::Together act) {
  worker->request(mine, bytes, act);
}

EXPORT void dlc_wgmma_fence() { worker->meet_group(Meeting::wgmma_fence, 0, [](Warpgroup&) {}); }
EXPORT void dlc_wgmma_commit() { worker->commit_products(); }
EXPORT void dlc_wgmma_wait(int newest) { worker->finish_products(newest); }
EXPORT void dlc_set_max_registers(int before, int after) { worker->set_registers(before, after); }

EXPORT unsigned dlc_window(uintptr_t number) {
  auto& all = worker->windows;
  const auto found = std::find(all.begin(), all.end(), number);
  if (found != all.end()) return unsigned(found - all.begin());
  all.push_back(number);
  return unsigned(all.size() - 1);
}

EXPORT uintptr_t dlc_window_at(unsigned index) {
  if (index >= worker->windows.size()) worker->fail("a matrix descriptor that none has made");
  return worker->windows[index];
}

EXPORT uint64_t dlc_shuffle(
    Meeting kind, uint64_t value, int argument, int width, unsigned named) {
  return worker->shuffle(kind, value, argument, width, named);
}

EXPORT void dlc_cp_async(void* dst, const void* src, int bytes, bool pred) {
  const auto aligned = [&](const void* p) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; };
  if (!aligned(dst) || (pred && !aligned(src)))
    worker->fail("thread %d: cp_async_%d needs addresses that are multiples of %d",
                 worker->current->index, bytes, bytes);
  const Copy copy{static_cast<char*>(dst), static_cast<const char*>(src), bytes, pred};
  if (worker->launch.early) copy.run();
  else worker->current->copies.push_back(copy);
}

EXPORT void dlc_cp_async_commit() {
  if (worker->launch.early) return;
  worker->current->groups.push_back(worker->current->copies.size());
}

EXPORT void dlc_cp_async_wait(int newest) { worker->finish_copies(size_t(newest)); }

EXPORT void dlc_mbarrier_init(void* address, unsigned count) {
  if (!count) worker->fail("mbarrier_init needs a count of at least 1");
  auto& all = worker->mbarriers;
  auto old = std::find_if(all.begin(), all.end(), [&](auto& b) { return b->address == address; });
  if (old != all.end()) all.erase(old);
  all.push_back(std::make_unique<Mbarrier>(Mbarrier{address, count, count, 0, false, {}}));
}

static void arrive(Worker& owner, Mbarrier& barrier) {
  if (!barrier.pending) worker->fail("an mbarrier gets more arrivals than its count of %u",
                                     barrier.count);
  --barrier.pending;
  owner.advance(barrier);
}

EXPORT void dlc_mbarrier_arrive(void* address) { arrive(*worker, worker->mbarrier(address)); }

EXPORT void dlc_mbarrier_arrive_at(void* address, int block) {
  Worker& other = worker->member(block, "arrives at an mbarrier");
  Mbarrier& barrier = worker->mbarrier_at(address, other);
  if (&other != worker) worker->team->note(worker->rank, block, worker->met);
  arrive(other, barrier);
}

EXPORT void dlc_mbarrier_expect_tx(void* address, unsigned bytes) {
  worker->mbarrier(address).tx += bytes;
}

EXPORT void dlc_mbarrier_wait(void* address, unsigned parity) {
  Mbarrier& barrier = worker->mbarrier(address);
  if (barrier.phase != (parity & 1)) return;
  Thread& self = *worker->current;
  self.waits_for = &barrier;
  self.parity = parity & 1;
  self.state = State::mbarrier;
  worker->advance(barrier);
  if (barrier.phase != self.parity) worker->wait(State::running);
  else worker->wait(State::mbarrier);
}

// A box of a tensor, and what lies of it in shared memory.
static BulkCopy bulk_copy(
    const char* what, char* shared, const void* map, const int* at, int rank) {
  BulkCopy copy{shared, *static_cast<const dlc::TensorMap*>(map), {}};
  if (int(copy.map.rank) != rank)
    worker->fail("%s_%dd got a tensor map of rank %u", what, rank, copy.map.rank);
  const unsigned alignment = std::max(128u, copy.map.swizzle_bytes * 8);
  if (reinterpret_cast<uintptr_t>(shared) % alignment)
    worker->fail("%s_%dd needs a slot at a multiple of %u bytes", what, rank, alignment);
  if (at[0] * int64_t(copy.map.element_bytes) % 16)
    worker->fail("%s_%dd begins at element %d of a row, no multiple of 16 bytes", what, rank, at[0]);
  std::copy(at, at + rank, copy.at);
  return copy;
}

static void load(Worker& owner, Mbarrier& barrier, const BulkCopy& copy) {
  if (worker->launch.early) {
    copy.run();
    barrier.tx -= copy.bytes();
  } else {
    barrier.late.push_back(copy);
  }
  owner.advance(barrier);
}

EXPORT void dlc_tma_load(void* dst, const void* map, void* address, const int* at, int rank) {
  const BulkCopy copy = bulk_copy("tma_load", static_cast<char*>(dst), map, at, rank);
  load(*worker, worker->mbarrier(address), copy);
}

EXPORT void dlc_tma_multicast(
    void* dst, const void* map, void* address, const int* at, int rank, int blocks) {
  BulkCopy copy = bulk_copy("tma_multicast", static_cast<char*>(dst), map, at, rank);
  for (int block = 0; blocks >> block; ++block) {
    if (!(blocks >> block & 1)) continue;
    Worker& other = worker->member(block, "writes to shared memory");
    copy.shared = worker->at_block(dst, other);
    load(other, worker->mbarrier_at(address, other), copy);
  }
}

EXPORT void dlc_tma_store(const void* src, const void* map, const int* at, int rank) {
  char* shared = static_cast<char*>(const_cast<void*>(src));
  Thread& self = *worker->current;
  BulkStore store{bulk_copy("tma_store", shared, map, at, rank), self.stored_groups, {}};
  if (worker->launch.early) {
    store.read();
    store.write();
  } else {
    self.stores.push_back(std::move(store));
  }
}

EXPORT void dlc_tma_commit() { ++worker->current->stored_groups; }
EXPORT void dlc_tma_wait(int newest, bool read) { worker->finish_stores(newest, read); }

// Runs the grid; 0, or 1 and a message about the first block that failed.
EXPORT int dlc_run(void (*kernel)(void**), void** args, const Launch* launch, char* message,
                   size_t size) try {
  Grid grid(kernel, args, *launch);
  std::vector<std::thread> helpers;
  for (int i = 1; i < grid.workers; ++i)
    try {
      helpers.emplace_back([&grid, i] { grid.work(i); });
    } catch (const std::system_error&) {  // the system grants no more threads
      if (launch->cluster > 1) grid.stop(i, "the system grants no thread for a block of a cluster");
      break;  // those there are do the work
    }
  grid.work(0);
  for (auto& helper : helpers) helper.join();
  if (grid.failure.empty()) return 0;
  snprintf(message, size, "%s", grid.failure.c_str());
  return 1;
} catch (const std::exception& error) {
  snprintf(message, size, "%s", error.what());
  return 1;
}

}  // extern "C"
