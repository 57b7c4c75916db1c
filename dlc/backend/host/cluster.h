// The OS threads that run the blocks of a cluster, and where they wait for each other.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace dlc {

// One of the blocks runs at a time, until it can go on no more and another one can: what it does to
// the others, it does alone.
class Team {
 public:
  explicit Team(int size) : size(size), running(size), reads(size_t(size) * size, -1), met(size) {}

  const int size;

  // A block is about to begin, `first` of them the first. Waits until all are, and for its turn;
  // false if one has failed.
  bool begin(int block, int first) {
    std::unique_lock<std::mutex> lock(mutex);
    if (++waiting == size) {
      waiting = 0;
      turn = first;
      changed.notify_all();
    }
    return wait_for_turn(lock, block);
  }

  // Another block goes on. Waits for the next turn of this one; false if one has failed.
  bool hand(int block, int other) {
    std::unique_lock<std::mutex> lock(mutex);
    turn = other;
    changed.notify_all();
    return wait_for_turn(lock, block);
  }

  // A block accesses the shared memory of another one, after so many barriers.
  void note(int reader, int owner, int barriers) {
    reads[size_t(reader * size + owner)] = barriers;  // of each reader its own
  }

  // A block has ended after so many barriers, and another one goes on. Waits until all have ended:
  // until then others may read its memory. False if one has failed; `why` says what, if it is this
  // one, that others know.
  bool end(int block, int barriers, int other, std::string& why) {
    std::unique_lock<std::mutex> lock(mutex);
    met[size_t(block)] = barriers;
    turn = other;
    changed.notify_all();
    if (--running) {
      const int before = clusters;
      changed.wait(lock, [&] { return failed || clusters != before; });
    } else {
      check();
      std::fill(reads.begin(), reads.end(), -1);
      running = size;
      ++clusters;
      changed.notify_all();
    }
    if (late == block) why = sentence;
    return !failed;
  }

  // `absent`: some of the threads never come.
  void fail(bool absent = false) {
    const std::lock_guard<std::mutex> lock(mutex);
    failed = true;
    if (absent) departed = size;
    changed.notify_all();
  }

  // Waits for all threads: one that still runs may read what lies in the memory of another.
  void depart() {
    std::unique_lock<std::mutex> lock(mutex);
    ++departed;
    changed.notify_all();
    changed.wait(lock, [&] { return departed >= size; });
  }

 private:
  std::mutex mutex;
  std::condition_variable changed;
  int running, waiting = 0, turn = -1, clusters = 0, departed = 0, late = -1;
  bool failed = false;
  std::vector<int> reads;  // by reader and owner: how many barriers came before the last one
  std::vector<int> met;    // by block: barriers in all
  std::string sentence;

  bool wait_for_turn(std::unique_lock<std::mutex>& lock, int block) {
    changed.wait(lock, [&] { return failed || turn == block; });
    return !failed;
  }

  // What is accessed after the last barrier of its block may be gone.
  void check() {
    for (int reader = 0; reader < size; ++reader)
      for (int owner = 0; owner < size; ++owner)
        if (reader != owner && reads[size_t(reader * size + owner)] >= met[size_t(owner)]) {
          late = reader;
          failed = true;
          sentence = "shared memory of block " + std::to_string(owner) + " of the cluster is accessed, " +
                     "which may have ended: it meets the others at no barrier after that";
        }
  }
};

}  // namespace dlc
