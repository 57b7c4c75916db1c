// The command line of an exported program. What it does not know is told, not passed over.
#pragma once
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dlc_text.h"

namespace exported {

// How many letters are to be changed, added or left out to make one word of another.
inline size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); j++) row[j] = j;
  for (size_t i = 0; i < a.size(); i++) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); j++) {
      const size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

// Makes a folder and those that it lies in.
inline void make_folder(const std::string& path) {
  struct stat found;
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string folder = path.substr(0, end);
    if (stat(folder.c_str(), &found) && mkdir(folder.c_str(), 0777) && errno != EEXIST)
      fail("the folder " + folder + " for the results cannot be made: " + std::strerror(errno));
    if (end == std::string::npos) break;
  }
  if (stat(path.c_str(), &found) || !S_ISDIR(found.st_mode))
    fail("expected a folder for the results, found the file " + path);
  if (access(path.c_str(), W_OK | X_OK))
    fail("the folder " + path + " for the results cannot be written to: " + std::strerror(errno));
}

struct Options {
  std::string inputs, results, weights;
  long long seed = 0, offset = 0;
  bool seeded = false;  // by either of the two

  // `draws` says whether the program takes a seed.
  Options(int argc, char** argv, const char* usage, bool draws) : usage_(usage), draws_(draws) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    std::vector<std::string> names;
    for (const std::string& word : words)
      if (word == "--help" || word == "-h") {
        std::fputs(usage, stdout);
        std::exit(0);
      }
    for (size_t i = 0; i < words.size(); i++)
      if (words[i][0] == '-') read_option(words, i);
      else names.push_back(words[i]);
    if (names.size() < 2 || names.size() > 3)
      fail_with_usage("expected INPUTS RESULTS [WEIGHTS.safetensors], found " +
                      std::to_string(names.size()) + (names.size() == 1 ? " name" : " names"));
    if (std::count(names.begin(), names.end(), "")) fail("a name of a folder or file is empty");
    inputs = names[0];
    results = names[1];
    if (names.size() == 3) weights = names[2];
  }

  // Says last what is wrong, after how to call the program.
  [[noreturn]] void fail_with_usage(const std::string& what) const {
    std::fprintf(stderr, "%s\n", usage_);
    fail(what);
  }

 private:
  // The option at words[i], which is left at its last word.
  void read_option(const std::vector<std::string>& words, size_t& i) {
    const size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    if (name != "--seed" && name != "--offset") fail_for_unknown(name);
    if (!draws_) fail("this program draws no random numbers: leave out " + name);
    if (equals == std::string::npos && ++i == words.size())
      fail(name + ": expected a whole number after it");
    const std::string text = equals == std::string::npos ? words[i] : words[i].substr(equals + 1);
    (name == "--seed" ? seed : offset) = whole_number(name, text);
    seeded = true;
  }

  [[noreturn]] void fail_for_unknown(const std::string& name) const {
    std::vector<std::string> known = {"--help"};
    if (draws_) known = {"--help", "--seed", "--offset"};
    const auto nearest = std::min_element(
        known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
          return distance(name, a) < distance(name, b);
        });
    fail("there is no option " + plain(name) + "; the nearest is " + *nearest +
         ", and run --help tells all");
  }

  static long long whole_number(const std::string& option, const std::string& text) {
    char* end = nullptr;
    errno = 0;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end)
      fail(option + ": expected a whole number, found " + (text.empty() ? "none" : plain(text)));
    if (errno == ERANGE) fail(option + ": expected a number of 64 bits, found " + plain(text));
    return value;
  }

  const char* usage_;
  bool draws_;
};

}  // namespace exported
