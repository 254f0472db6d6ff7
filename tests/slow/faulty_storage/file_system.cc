// A file system of TensorFlow's, `faulty://`, which fails when a test says so.
//
// It keeps its files in a folder of the machine and behaves as an object store does: a file is
// there when it is closed or flushed, whole, and a rename is one of files. It is loaded by
// tf.experimental.register_filesystem_plugin, so that all of TensorFlow goes through it: gfile, the
// operations that save and restore checkpoints, the writers of summaries. tests/slow/faulty_storage
// compiles it and says what fails, by the functions at the end.

#include <stdbool.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tensorflow/c/experimental/filesystem/filesystem_interface.h"
#include "tensorflow/c/tf_file_statistics.h"
#include "tensorflow/c/tf_status.h"

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

// The kinds of operations, as bits. tests/slow/faulty_storage/__init__.py has the same numbers.
enum Operation {
  kOpenToRead = 1,
  kRead = 2,
  kOpenToWrite = 4,
  kAppend = 8,
  kPublish = 16,
  kMakeFolder = 32,
  kRemove = 64,
  kRename = 128,
  kCopy = 256,
  kLook = 512,
  kList = 1024,
};

struct Rule {
  int operations;
  std::string part;    // of the paths that the rule is for
  int skip;            // so many operations pass before the first that fails
  int count;           // so many fail; -1: all
  double seconds;      // for so long after the first; 0: no end
  int code;            // of tf.errors; 0: it does not fail
  double delay;        // seconds that the operation takes
  bool is_late;        // it fails after it was done, as when the answer is lost
  Clock::time_point first;
  bool has_begun;
};

std::mutex mutex;
std::vector<Rule> rules;
double lag = 0;  // seconds for which a listing does not show what is new, and shows what is gone
std::string root;
std::atomic<int64_t> operations{0}, failures{0}, uploads{0};

std::string Local(const char* path) {
  std::string text(path);
  const std::string scheme = "faulty://";
  if (text.rfind(scheme, 0) == 0) text = text.substr(scheme.size());
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// Delays an operation, and returns the code with which it fails, and whether it is done before.
std::pair<int, bool> Fault(int operation, const std::string& path) {
  operations++;
  double delay = 0;
  std::pair<int, bool> found{0, false};
  {
    std::lock_guard<std::mutex> guard(mutex);
    for (auto& rule : rules) {
      if (!(rule.operations & operation) || path.find(rule.part) == std::string::npos) continue;
      if (rule.skip > 0) {
        rule.skip--;
        continue;
      }
      const auto now = Clock::now();
      if (!rule.has_begun) rule.first = now;
      rule.has_begun = true;
      if (rule.seconds > 0 && std::chrono::duration<double>(now - rule.first).count() > rule.seconds)
        continue;
      delay += rule.delay;
      if (!rule.code || !rule.count) continue;
      if (rule.count > 0) rule.count--;
      found = {rule.code, rule.is_late};
      failures++;
      break;
    }
  }
  if (delay > 0) std::this_thread::sleep_for(std::chrono::duration<double>(delay));
  return found;
}

// Does an operation, unless it fails. `act` returns a code and its message.
template <typename Act>
void Do(int operation, const std::string& path, TF_Status* status, Act act) {
  const auto [code, is_late] = Fault(operation, path);
  if (code && !is_late) {
    TF_SetStatus(status, static_cast<TF_Code>(code), ("injected fault: " + path).c_str());
    return;
  }
  try {
    act();
    if (TF_GetCode(status) != TF_OK) return;
  } catch (const fs::filesystem_error& error) {
    TF_SetStatus(status, TF_FAILED_PRECONDITION, error.what());
    return;
  }
  if (code) TF_SetStatus(status, static_cast<TF_Code>(code), "injected fault: the answer is lost");
}

// A note that a path has just come or gone, which other processes see too.
fs::path Note(const char* what, const std::string& path) {
  std::string name = path;
  std::replace(name.begin(), name.end(), '/', '\\');
  return fs::path(root) / ".faulty" / (what + name);
}

void Touch(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path).put('\n');
}

void Came(const std::string& path) {
  if (lag > 0) Touch(Note("came", path));
}

void Went(const std::string& path) {
  if (lag > 0) Touch(Note("went", path));
}

bool IsRecent(const fs::path& note) {
  std::error_code error;
  const auto time = fs::last_write_time(note, error);
  if (error) return false;
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - time).count() < lag;
}

void MakeFolders(const fs::path& path) {
  if (path.empty() || fs::exists(path)) return;
  MakeFolders(path.parent_path());
  fs::create_directory(path);
  Came(path.string());
}

void Publish(const std::string& path, const std::string& content) {
  const bool is_new = !fs::exists(path);
  MakeFolders(fs::path(path).parent_path());
  const fs::path upload = fs::path(root) / ".faulty" / ("upload" + std::to_string(uploads++));
  fs::create_directories(upload.parent_path());
  std::ofstream(upload, std::ios::binary) << content;
  fs::rename(upload, path);
  if (is_new) Came(path);
}

std::vector<std::string> Names(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (name == ".faulty") continue;
    if (lag > 0 && IsRecent(Note("came", entry.path().string()))) continue;
    names.insert(name);
  }
  const fs::path notes = fs::path(root) / ".faulty";
  if (lag > 0 && fs::exists(notes)) {
    const auto prefix = Note("went", folder + "/").filename().string();
    for (const auto& note : fs::directory_iterator(notes)) {
      const auto name = note.path().filename().string();
      if (name.rfind(prefix, 0) || name.find('\\', prefix.size()) != std::string::npos) continue;
      if (IsRecent(note.path())) names.insert(name.substr(prefix.size()));
    }
  }
  return {names.begin(), names.end()};
}

void NotFound(const std::string& path, TF_Status* status) {
  TF_SetStatus(status, TF_NOT_FOUND, (path + "; No such file or directory").c_str());
}

// Files that are read. The content is read when the file is opened.

struct Reader {
  std::string path, content;
};

void OpenToRead(const TF_Filesystem*, const char* uri, TF_RandomAccessFile* file,
                TF_Status* status) {
  const auto path = Local(uri);
  file->plugin_file = nullptr;
  Do(kOpenToRead, path, status, [&] {
    if (!fs::is_regular_file(path)) return NotFound(path, status);
    std::ifstream stream(path, std::ios::binary);
    file->plugin_file = new Reader{
        path, {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()}};
  });
}

void CloseReader(TF_RandomAccessFile* file) { delete static_cast<Reader*>(file->plugin_file); }

int64_t Read(const TF_RandomAccessFile* file, uint64_t offset, size_t count, char* buffer,
             TF_Status* status) {
  const auto* reader = static_cast<Reader*>(file->plugin_file);
  int64_t given = -1;
  Do(kRead, reader->path, status, [&] {
    const size_t size = reader->content.size();
    given = offset >= size ? 0 : std::min(count, size - static_cast<size_t>(offset));
    std::memcpy(buffer, reader->content.data() + (given ? offset : 0), given);
    if (static_cast<size_t>(given) < count) TF_SetStatus(status, TF_OUT_OF_RANGE, "end of file");
  });
  if (TF_GetCode(status) != TF_OK && TF_GetCode(status) != TF_OUT_OF_RANGE) return -1;
  return given;
}

// Files that are written. They are there when they are flushed or closed.

struct Writer {
  std::string path, content;
  bool is_changed;
};

void OpenToWrite(const TF_Filesystem*, const char* uri, TF_WritableFile* file, TF_Status* status) {
  const auto path = Local(uri);
  file->plugin_file = nullptr;
  Do(kOpenToWrite, path, status, [&] { file->plugin_file = new Writer{path, "", true}; });
}

void OpenToAppend(const TF_Filesystem*, const char*, TF_WritableFile* file, TF_Status* status) {
  file->plugin_file = nullptr;
  TF_SetStatus(status, TF_UNIMPLEMENTED, "an object cannot be appended to");
}

void CloseWriter(TF_WritableFile* file) { delete static_cast<Writer*>(file->plugin_file); }

void Append(const TF_WritableFile* file, const char* buffer, size_t count, TF_Status* status) {
  auto* writer = static_cast<Writer*>(file->plugin_file);
  Do(kAppend, writer->path, status, [&] {
    writer->content.append(buffer, count);
    writer->is_changed = true;
  });
}

int64_t Tell(const TF_WritableFile* file, TF_Status*) {
  return static_cast<Writer*>(file->plugin_file)->content.size();
}

void Flush(const TF_WritableFile* file, TF_Status* status) {
  auto* writer = static_cast<Writer*>(file->plugin_file);
  if (!writer->is_changed) return;
  Do(kPublish, writer->path, status, [&] {
    Publish(writer->path, writer->content);
    writer->is_changed = false;
  });
}

// The rest.

void MakeFolder(const TF_Filesystem*, const char* uri, TF_Status* status) {
  const auto path = Local(uri);
  Do(kMakeFolder, path, status, [&] { MakeFolders(path); });
}

void RemoveFile(const TF_Filesystem*, const char* uri, TF_Status* status) {
  const auto path = Local(uri);
  Do(kRemove, path, status, [&] {
    if (!fs::is_regular_file(path)) return NotFound(path, status);
    fs::remove(path);
    Went(path);
  });
}

void RemoveFolder(const TF_Filesystem*, const char* uri, TF_Status* status) {
  const auto path = Local(uri);
  Do(kRemove, path, status, [&] {
    if (!fs::is_directory(path)) return NotFound(path, status);
    if (!Names(path).empty())
      return TF_SetStatus(status, TF_FAILED_PRECONDITION, "the folder is not empty");
    if (!fs::is_empty(path)) return;  // what the listing does not show yet
    fs::remove(path);
    Went(path);
  });
}

void Rename(const TF_Filesystem*, const char* from, const char* to, TF_Status* status) {
  const auto source = Local(from), target = Local(to);
  Do(kRename, source, status, [&] {
    if (!fs::exists(source)) return NotFound(source, status);
    if (fs::is_directory(source))
      return TF_SetStatus(status, TF_UNIMPLEMENTED, "a folder cannot be renamed");
    const bool is_new = !fs::exists(target);
    MakeFolders(fs::path(target).parent_path());
    fs::rename(source, target);
    if (is_new) Came(target);
    Went(source);
  });
}

void Copy(const TF_Filesystem*, const char* from, const char* to, TF_Status* status) {
  const auto source = Local(from), target = Local(to);
  Do(kCopy, source, status, [&] {
    if (!fs::is_regular_file(source)) return NotFound(source, status);
    std::ifstream stream(source, std::ios::binary);
    Publish(target,
            {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()});
  });
}

void Exists(const TF_Filesystem*, const char* uri, TF_Status* status) {
  const auto path = Local(uri);
  Do(kLook, path, status, [&] {
    if (!fs::exists(path)) NotFound(path, status);
  });
}

void Stat(const TF_Filesystem*, const char* uri, TF_FileStatistics* stats, TF_Status* status) {
  const auto path = Local(uri);
  Do(kLook, path, status, [&] {
    if (!fs::exists(path)) return NotFound(path, status);
    stats->is_directory = fs::is_directory(path);
    stats->length = stats->is_directory ? 0 : fs::file_size(path);
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(path);
    stats->mtime_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            (std::chrono::system_clock::now() - age).time_since_epoch())
                            .count() /
                        1000000 * 1000000;
  });
}

bool IsFolder(const TF_Filesystem*, const char* uri, TF_Status* status) {
  const auto path = Local(uri);
  bool is_folder = false;
  Do(kLook, path, status, [&] {
    if (!fs::exists(path)) return NotFound(path, status);
    is_folder = fs::is_directory(path);
    if (!is_folder) TF_SetStatus(status, TF_FAILED_PRECONDITION, "not a folder");
  });
  return is_folder;
}

int64_t Size(const TF_Filesystem*, const char* uri, TF_Status* status) {
  const auto path = Local(uri);
  int64_t size = -1;
  Do(kLook, path, status, [&] {
    if (!fs::is_regular_file(path)) return NotFound(path, status);
    size = fs::file_size(path);
  });
  return size;
}

int Children(const TF_Filesystem*, const char* uri, char*** entries, TF_Status* status) {
  const auto path = Local(uri);
  int count = -1;
  Do(kList, path, status, [&] {
    if (!fs::is_directory(path)) return NotFound(path, status);
    const auto names = Names(path);
    count = names.size();
    *entries = static_cast<char**>(std::malloc(sizeof(char*) * (count + 1)));
    for (int i = 0; i < count; i++) (*entries)[i] = strdup(names[i].c_str());
  });
  return TF_GetCode(status) == TF_OK ? count : -1;
}

char* Translated(const TF_Filesystem*, const char* uri) { return strdup(uri); }

template <typename Ops>
Ops* Made() {
  return static_cast<Ops*>(std::calloc(1, sizeof(Ops)));
}

}  // namespace

extern "C" {

void TF_InitPlugin(TF_FilesystemPluginInfo* info) {
  info->plugin_memory_allocate = std::malloc;
  info->plugin_memory_free = std::free;
  info->num_schemes = 1;
  info->ops = Made<TF_FilesystemPluginOps>();
  auto* ops = info->ops;
  TF_SetFilesystemVersionMetadata(ops);
  ops->scheme = strdup("faulty");
  auto* readers = ops->random_access_file_ops = Made<TF_RandomAccessFileOps>();
  readers->cleanup = CloseReader;
  readers->read = Read;
  auto* writers = ops->writable_file_ops = Made<TF_WritableFileOps>();
  writers->cleanup = CloseWriter;
  writers->append = Append;
  writers->tell = Tell;
  writers->flush = writers->sync = writers->close = Flush;
  auto* all = ops->filesystem_ops = Made<TF_FilesystemOps>();
  all->init = [](TF_Filesystem*, TF_Status*) {};
  all->cleanup = [](TF_Filesystem*) {};
  all->new_random_access_file = OpenToRead;
  all->new_writable_file = OpenToWrite;
  all->new_appendable_file = OpenToAppend;
  all->create_dir = all->recursively_create_dir = MakeFolder;
  all->delete_file = RemoveFile;
  all->delete_dir = RemoveFolder;
  all->rename_file = Rename;
  all->copy_file = Copy;
  all->path_exists = Exists;
  all->stat = Stat;
  all->is_directory = IsFolder;
  all->get_file_size = Size;
  all->translate_name = Translated;
  all->get_children = Children;
}

void faulty_begin(const char* folder, double lag_seconds) {
  std::lock_guard<std::mutex> guard(mutex);
  rules.clear();
  root = folder;
  lag = lag_seconds;
  operations = failures = 0;
}

void faulty_add(int kinds, const char* part, int skip, int count, double seconds, int code,
                double delay, bool is_late) {
  std::lock_guard<std::mutex> guard(mutex);
  rules.push_back({kinds, part, skip, count, seconds, code, delay, is_late, {}, false});
}

int64_t faulty_operations() { return operations; }

int64_t faulty_failures() { return failures; }

}  // extern "C"
