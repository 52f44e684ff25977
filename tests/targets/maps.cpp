// Maps and sets of the C++ library. It prints what it passes to each function, as JSON, from what the classes themselves
// return; with an argument, where their members are instead.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace zoo {

enum Kind : int { KIND_ADD, KIND_MUL, KIND_VIEW };

struct Part {
    int32_t a;
    int64_t b;
};

struct Backwards {
    bool operator()(int32_t one, int32_t other) const { return one > other; }
};

struct Maps {
    std::map<std::string, Part> sorted;
    std::unordered_map<std::string, Part> named;
    std::map<int8_t, int8_t> narrow;
    std::map<int32_t, int32_t, Backwards> numbers;
    std::unordered_map<int64_t, Part*> pointers;
    std::unordered_map<Kind, std::string> kinds;
    std::multimap<int32_t, int16_t> several;
    std::set<int16_t> set;
    std::unordered_set<std::string> words;
    std::map<std::string, std::map<int32_t, int64_t>> within;
    std::unordered_map<std::string, std::unique_ptr<Part>> owned;
};

#define PROBED extern "C" __attribute__((noinline, visibility("default")))

PROBED int maps_step(int n) { asm volatile(""); return n; }
PROBED void maps_look_up(const Maps* maps, int32_t key) { asm volatile("" : : "r"(maps), "r"(key) : "memory"); }
PROBED void maps_passed(const std::map<std::string, Part>& sorted, std::unordered_map<std::string, Part>* named)
{
    asm volatile("" : : "r"(&sorted), "r"(named) : "memory");
}
PROBED void maps_wrong(const Maps* maps) { asm volatile("" : : "r"(maps) : "memory"); }
PROBED void maps_large(const Maps* maps) { asm volatile("" : : "r"(maps) : "memory"); }

}  // namespace zoo

using namespace zoo;

template <typename T> static std::string text(const T& value) { return std::to_string(value); }
static std::string text(const std::string& value) { return "\"" + value + "\""; }

// What `get` makes of what a key stands for, or null.
template <typename M, typename K, typename G> static std::string of(const M& map, const K& key, G get)
{
    auto found = map.find(key);
    return found == map.end() ? "null" : text(get(found->second));
}

template <typename M, typename G> static std::string list(const M& map, size_t most, G get)
{
    std::string all;
    size_t n = 0;
    for (const auto& one : map)
        if (n++ < most)
            all += (n > 1 ? ", " : "") + text(get(one));
    return "[" + all + "]";
}

static void give(Maps& maps, int32_t key)
{
    auto same = [](const auto& value) { return value; };
    auto a = [](const Part& part) { return part.a; };
    auto b = [](const Part& part) { return part.b; };
    std::string within = "null";
    if (maps.within.count("inner"))
        within = of(maps.within.at("inner"), key, same);
    printf("{\"probe\": \"look_up\", \"fields\": {\"sorted\": %s, \"named\": %s, \"elsewhere\": %s, \"empty\": %s, \"narrow\": %s, "
           "\"number\": %s, \"pointed\": %s, \"kind\": %s, \"several\": %s, \"within\": %s, \"owned\": %s, \"or\": %d}}\n",
           of(maps.sorted, "group", a).c_str(), of(maps.named, "group", b).c_str(),
           of(maps.named, "a key that is longer than what lies in place", a).c_str(), of(maps.sorted, "", a).c_str(),
           of(maps.narrow, -3, same).c_str(), of(maps.numbers, key, same).c_str(),
           of(maps.pointers, int64_t(key) << 33, [](const Part* part) { return part->b; }).c_str(), of(maps.kinds, KIND_VIEW, same).c_str(),
           maps.several.count(7) ? text(maps.several.lower_bound(7)->second).c_str() : "null", within.c_str(),
           of(maps.owned, "one", [](const std::unique_ptr<Part>& part) { return part->a; }).c_str(),
           maps.named.count("axis") ? maps.named.at("axis").a : -1);
    printf("{\"probe\": \"sizes\", \"fields\": {\"sorted\": %zu, \"named\": %zu, \"several\": %zu, \"set\": %zu, \"words\": %zu, "
           "\"in_set\": %d, \"word\": %d, \"has\": %d}}\n",
           maps.sorted.size(), maps.named.size(), maps.several.size(), maps.set.size(), maps.words.size(),
           int(maps.set.count(int16_t(key))), int(maps.words.count("word")), int(maps.named.count("group")));
    if (maps.numbers.count(2))
        printf("{\"probe\": \"has_two\", \"fields\": {\"two\": %d}}\n", maps.numbers.at(2));
    printf("{\"probe\": \"keys\", \"fields\": {\"all\": %s}}\n",
           list(maps.numbers, 16, [](const auto& one) { return one.first; }).c_str());
    printf("{\"probe\": \"values\", \"fields\": {\"all\": %s}}\n",
           list(maps.several, 3, [](const auto& one) { return one.second; }).c_str());
    printf("{\"probe\": \"parts\", \"fields\": {\"all\": %s}}\n",
           list(maps.named, 16, [](const auto& one) { return one.second.b; }).c_str());
    printf("{\"probe\": \"members\", \"fields\": {\"all\": %s}}\n", list(maps.set, 32, same).c_str());
    maps_look_up(&maps, key);
    printf("{\"probe\": \"passed\", \"fields\": {\"sorted\": %s, \"named\": %s, \"size\": %zu, \"has\": %d}}\n",
           of(maps.sorted, "group", b).c_str(), of(maps.named, "group", a).c_str(), maps.named.size(), int(maps.named.count("axis")));
    maps_passed(maps.sorted, &maps.named);
}

#define AT(member) printf("%s %zu\n", #member, offsetof(Maps, member))

static void print_offsets()
{
    AT(sorted); AT(named); AT(narrow); AT(numbers); AT(pointers); AT(kinds); AT(several); AT(set); AT(words); AT(within); AT(owned);
}

// The word of a class, or of a node, at an offset.
static uint64_t& word(void* of, size_t offset) { return *reinterpret_cast<uint64_t*>(static_cast<char*>(of) + offset); }

#ifdef _LIBCPP_VERSION
const size_t tree_first = 0, tree_count = 16, tree_right = 8, tree_parent = 16;
#else
const size_t tree_first = 24, tree_count = 40, tree_right = 24, tree_parent = 8;
#endif
const size_t list_first = 16, list_count = 24;

// Makes memory wrong while a function is called, and right again.
static void give_wrong(Maps& maps, uint64_t& at, uint64_t value, bool in_list = false)
{
    uint64_t before = at;
    at = value;
    printf("{\"probe\": \"wrong\", \"fields\": {\"number\": null, \"has\": %s, \"pointed\": null, \"points\": %s}}\n",
           in_list ? "0" : "null", in_list ? "null" : "0");
    maps_wrong(&maps);
    at = before;
}

int main(int argc, char**)
{
    if (argc > 1) {
        print_offsets();
        return 0;
    }
    static Part part{7, 70};
    Maps none, some, large, wrong;
    some.sorted = {{"group", {1, 10}}, {"axis", {2, 20}}, {"grouq", {3, 30}}, {"", {4, 40}}};
    some.named = {{"axis", {5, 50}}, {"group", {6, 60}}, {"a key that is longer than what lies in place", {8, 80}}, {"grou", {9, 90}}};
    some.narrow = {{-3, 33}, {3, -33}, {0, 1}};
    for (int32_t i = -5; i < 9; i++)
        some.numbers[i] = i * i;
    some.pointers = {{int64_t(2) << 33, &part}, {2, nullptr}};
    some.kinds = {{KIND_ADD, "add"}, {KIND_VIEW, "view"}};
    some.several = {{7, 1}, {7, 2}, {1, 3}};
    some.set = {5, -1, 2, 4};
    some.words = {"word", "ward"};
    some.within["inner"] = {{2, 222}, {4, 444}};
    some.owned["one"] = std::make_unique<Part>(Part{11, 110});
    // As many as are visited: nothing of these is left out.
    for (int32_t i = 0; i < 32; i++) {
        some.set.insert(int16_t(100 + i * 7 % 32));
        if (some.set.size() == 32)
            break;
    }
    for (int32_t i = 0; i < 1000; i++) {
        large.numbers[i] = i;
        large.named[std::to_string(i)] = {i, i};
        large.set.insert(int16_t(i));
    }
    for (int32_t i = 0; i < 6; i++) {
        wrong.numbers[i] = i;
        wrong.pointers[i] = &part;
    }
    for (int round = 0; round < 3; round++) {
        maps_step(1);
        for (int32_t key : {0, 2, 4, -1})
            for (Maps* maps : {&none, &some})
                give(*maps, key);
        // The keys are sorted from the largest: the first are found, the others may be there or not. Sizes are known.
        printf("{\"probe\": \"large\", \"fields\": {\"first\": 999, \"last\": null, \"missing\": null, \"named\": null, \"size\": 1000, "
               "\"in_set\": 1, \"not_in_set\": null}}\n");
        std::string all;
        for (int32_t i = 999; i > 999 - 8; i--)
            all += (all.empty() ? "" : ", ") + std::to_string(i);
        printf("{\"probe\": \"large_keys\", \"fields\": {\"all\": [%s]}}\n", all.c_str());
        maps_large(&large);
        // A number of elements that is too large, or too small; a list and a tree without an end; nodes where there is no memory.
        give_wrong(wrong, word(&wrong.numbers, tree_count), 9);
        give_wrong(wrong, word(&wrong.numbers, tree_count), 3);
        give_wrong(wrong, word(&wrong.numbers, tree_count), uint64_t(1) << 60);
        void* first = reinterpret_cast<void*>(word(&wrong.numbers, tree_first));
        void* parent = reinterpret_cast<void*>(word(first, tree_parent));
        give_wrong(wrong, word(&wrong.numbers, tree_first), 0x123456789);
        give_wrong(wrong, word(&wrong.numbers, tree_first), 0);
        give_wrong(wrong, word(first, tree_parent), word(&wrong.numbers, tree_first));
        give_wrong(wrong, word(parent, tree_parent), reinterpret_cast<uint64_t>(first));
        give_wrong(wrong, word(parent, tree_right), reinterpret_cast<uint64_t>(parent));
        give_wrong(wrong, word(&wrong.pointers, list_count), 9, true);
        give_wrong(wrong, word(&wrong.pointers, list_count), 3, true);
        give_wrong(wrong, word(&wrong.pointers, list_first), 0x123456789, true);
        first = reinterpret_cast<void*>(word(&wrong.pointers, list_first));
        give_wrong(wrong, word(first, 0), reinterpret_cast<uint64_t>(first), true);
    }
    return 0;
}
