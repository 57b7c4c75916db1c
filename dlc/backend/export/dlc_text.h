// Messages, and the headers of files as values. Nothing that a file says is believed unread.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace exported {

using Numbers = std::vector<long long>;

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "error: %s\n", what.c_str());
  std::exit(1);
}

inline std::string shown(const Numbers& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); i++) text += (i ? ", " : "") + std::to_string(numbers[i]);
  return "(" + text + (numbers.size() == 1 ? ",)" : ")");
}

// Text of a stranger as a message shows it: not long, and without commands to a terminal.
inline std::string plain(const std::string& text) {
  std::string said;
  for (const char c : text.substr(0, 80)) said += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > 80 ? said + "..." : said;
}

// A value in a header: JSON in .safetensors, a literal of Python in .npy.
struct Value {
  enum Kind { WORD, TEXT, LIST, TABLE } kind = WORD;
  std::string text;               // of a word, such as 12 or False, or what stands between quotes
  std::vector<Value> items;       // of a list, a tuple or a table
  std::vector<std::string> keys;  // of a table, one for each item

  // What a table has under a key, or nullptr.
  const Value* find(const std::string& key) const {
    for (size_t i = 0; i < keys.size(); i++)
      if (keys[i] == key) return &items[i];
    return nullptr;
  }

  // True for a list of whole numbers from 0 on, which fit.
  bool numbers(Numbers& found) const {
    found.clear();
    for (const Value& item : items) {
      const bool digits = item.text.find_first_not_of("0123456789") == std::string::npos;
      if (item.kind != WORD || !digits || item.text.size() > 18) return false;
      found.push_back(std::atoll(item.text.c_str()));
    }
    return kind == LIST;
  }
};

// Reads the text of a header.
class Header {
 public:
  explicit Header(const std::string& text) : text_(text) {}

  // True if the text is one value; if not, at() is the byte up to which it could have been.
  bool read(Value& value) {
    if (!read_value(value, 8)) return false;
    skip_spaces();
    return at_ == text_.size();
  }
  size_t at() const { return at_; }

 private:
  // `depth` is how many lists may stand in each other.
  bool read_value(Value& value, int depth) {
    skip_spaces();
    switch (peek()) {
      case '"':
      case '\'': value.kind = Value::TEXT; return read_text(value.text);
      case '(': value.kind = Value::LIST; return read_items(value, ')', depth);
      case '[': value.kind = Value::LIST; return read_items(value, ']', depth);
      case '{': value.kind = Value::TABLE; return read_items(value, '}', depth);
      default: return read_word(value.text);
    }
  }

  bool read_items(Value& value, char end, int depth) {
    if (depth == 0) return false;
    at_++;
    for (skip_spaces(); !take(end); skip_spaces()) {
      if (value.kind == Value::TABLE) {
        value.keys.emplace_back();
        if (!read_text(value.keys.back())) return false;
        skip_spaces();
        if (!take(':')) return false;
      }
      value.items.emplace_back();
      if (!read_value(value.items.back(), depth - 1)) return false;
      skip_spaces();
      if (!take(',') && peek() != end) return false;
    }
    return true;
  }

  bool read_word(std::string& word) {
    const size_t begin = at_;
    at_ = std::min(text_.find_first_not_of(WORD, begin), text_.size());
    word = text_.substr(begin, at_ - begin);
    return !word.empty();
  }

  bool read_text(std::string& text) {
    const char quote = peek();
    if (quote != '"' && quote != '\'') return false;
    for (at_++; at_ < text_.size() && peek() != quote; at_++) {
      if (peek() != '\\') text += peek();
      else if (!read_escape(text)) return false;
    }
    return take(quote);
  }

  // Leaves at_ at the last character.
  bool read_escape(std::string& text) {
    at_++;
    if (peek() == 'u') return read_unicode(text);
    const size_t found = std::string("bfnrt\"\'/\\").find(peek());
    if (found == std::string::npos) return false;
    text += "\b\f\n\r\t\"\'/\\"[found];
    return true;
  }

  // XXXX of \uXXXX, in UTF-8.
  bool read_unicode(std::string& text) {
    const std::string digits = text_.substr(at_ + 1, 4);
    if (digits.size() < 4 || digits.find_first_not_of(HEX) != std::string::npos) return false;
    const unsigned code = std::stoul(digits, nullptr, 16);
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {
      if (code >= 0x800) text += static_cast<char>(0xe0 | code >> 12);
      text += static_cast<char>(code < 0x800 ? 0xc0 | code >> 6 : 0x80 | (code >> 6 & 63));
      text += static_cast<char>(0x80 | (code & 63));
    }
    at_ += 4;
    return true;
  }

  void skip_spaces() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  bool take(char wanted) {
    const bool there = peek() == wanted;
    at_ += there;
    return there;
  }
  // The next character; 0 at the end.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  static constexpr const char* HEX = "0123456789abcdefABCDEF";
  static constexpr const char* WORD =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-._";
  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace exported
