// Classes of the C++ library that hold a value in place or none, and classes of its own that hold elements in place or
// elsewhere. It prints what it passes to each function, as JSON, from what the classes themselves return; with an
// argument, where their members are instead.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace zoo {

struct Part {
    int32_t a;
    int64_t b;
};

struct Wide {
    int32_t values[8];
};

// Leaves a variant without a value: making another alternative fails.
struct Bomb {
    int32_t fuse;
    explicit Bomb(int32_t fuse) : fuse(fuse)
    {
        if (fuse < 0)
            throw 1;
    }
};

using Any = std::variant<std::monostate, int32_t, std::string, Part>;

struct Holder {
    std::optional<int32_t> number;
    std::optional<int8_t> narrow;
    std::optional<bool> flag;
    std::optional<std::string> name;
    std::optional<Part> part;
    std::optional<const Part*> pointer;
    std::optional<std::vector<int32_t>> list;
    std::vector<std::optional<int32_t>> several;
    std::optional<int16_t> fixed[3];
    Any any;
    std::variant<int8_t, bool> small;
    std::variant<Part, Wide> sized;
    std::variant<int64_t, Bomb> failing;
    // LLVM's library does not place this by the sizes of the alternatives: two of its bases would have one address.
    std::variant<int32_t, std::optional<int16_t>> within;
    std::optional<int32_t> last;
};

// Always behind a pointer, which may lead to the room in the object.
struct Small {
    int64_t* data;
    uint32_t count, room;
    int64_t near[3];
};

// The lowest bit of the first word tells where the elements are; the rest is their number.
struct Inlined {
    uint64_t tag;
    union {
        int64_t near[4];
        struct {
            int64_t* far;
            uint64_t room;
        };
    };
};

// In place up to five.
struct Sizes {
    uint64_t dims;
    union {
        int64_t* far;
        int64_t near[5];
    };
};

struct Range {
    int32_t *first, *end, *room;
};

struct Parts {
    const Part* parts;
    int32_t count;
};

struct Lists {
    Small small;
    Inlined inlined;
    Sizes sizes;
    Range range;
    Parts parts;
};

#define PROBED extern "C" __attribute__((noinline, visibility("default")))

PROBED int zoo_step(int n) { asm volatile(""); return n; }
PROBED void zoo_holder(const Holder* holder) { asm volatile("" : : "r"(holder) : "memory"); }
PROBED void zoo_any(const Any& any, const std::optional<int32_t>& number) { asm volatile("" : : "r"(&any), "r"(&number) : "memory"); }
PROBED void zoo_lists(const Lists* lists, int32_t index) { asm volatile("" : : "r"(lists), "r"(index) : "memory"); }
PROBED void zoo_each(const Lists* lists) { asm volatile("" : : "r"(lists) : "memory"); }
PROBED void zoo_wrong(const std::optional<int32_t>* number, const Any* any, const Parts* parts)
{
    asm volatile("" : : "r"(number), "r"(any), "r"(parts) : "memory");
}

}  // namespace zoo

using namespace zoo;

template <typename T> static std::string text(const T& value) { return std::to_string(value); }
static std::string text(const std::string& value) { return "\"" + value + "\""; }
static std::string text(bool value) { return value ? "true" : "false"; }
template <typename T> static std::string or_null(const T* value) { return value ? text(*value) : "null"; }
template <typename T> static const T* get(const std::optional<T>& of) { return of ? &*of : nullptr; }

static std::string list(const int64_t* from, size_t count, size_t most)
{
    std::string all;
    for (size_t i = 0; i < count && i < most; i++)
        all += (i ? ", " : "") + std::to_string(from[i]);
    return "[" + all + "]";
}

static void give(const Holder& holder)
{
    const Part* part = get(holder.part);
    const Part* there = holder.pointer ? *holder.pointer : nullptr;
    const Part* alternative = std::get_if<3>(&holder.any);
#ifdef _LIBCPP_VERSION
    const std::optional<int16_t>* within = nullptr;
#else
    const auto* within = std::get_if<1>(&holder.within);
#endif
    const Part* sized = std::get_if<0>(&holder.sized);
    const Wide* wide = std::get_if<1>(&holder.sized);
    const Bomb* bomb = std::get_if<1>(&holder.failing);
    printf("{\"probe\": \"holder\", \"fields\": {\"has_number\": %d, \"number\": %s, \"narrow\": %s, \"flag\": %s, \"name\": %s, \"b\": %s, "
           "\"pointed\": %s, \"count\": %s, \"second\": %s, \"several\": %s, \"fixed\": %s, \"or\": %d, \"last\": %s}}\n",
           holder.number.has_value(), or_null(get(holder.number)).c_str(), or_null(get(holder.narrow)).c_str(),
           or_null(get(holder.flag)).c_str(), or_null(get(holder.name)).c_str(), or_null(part ? &part->b : nullptr).c_str(),
           or_null(there ? &there->a : nullptr).c_str(), holder.list ? text(holder.list->size()).c_str() : "null",
           holder.list && holder.list->size() > 1 ? text((*holder.list)[1]).c_str() : "null",
           or_null(get(holder.several[1])).c_str(), or_null(get(holder.fixed[2])).c_str(), holder.number.value_or(-1),
           or_null(get(holder.last)).c_str());
    std::string index = holder.failing.valueless_by_exception() ? "null" : text(holder.failing.index());
    printf("{\"probe\": \"variants\", \"fields\": {\"any\": %zu, \"first\": %s, \"second\": %s, \"third\": %s, \"within\": %s, "
           "\"small\": %zu, \"minus\": %s, \"sized\": %zu, \"b\": %s, \"wide\": %s, \"failing\": %s, \"fuse\": %s}}\n",
           holder.any.index(), or_null(std::get_if<1>(&holder.any)).c_str(), or_null(std::get_if<2>(&holder.any)).c_str(),
           or_null(alternative ? &alternative->a : nullptr).c_str(), within && *within ? text(**within).c_str() : "null",
           holder.small.index(), or_null(std::get_if<0>(&holder.small)).c_str(), holder.sized.index(),
           or_null(sized ? &sized->b : nullptr).c_str(), or_null(wide ? &wide->values[7] : nullptr).c_str(), index.c_str(),
           or_null(bomb ? &bomb->fuse : nullptr).c_str());
    // A probe with a condition: there is a record where it holds.
    if (holder.number && *holder.number > 0)
        printf("{\"probe\": \"positive\", \"fields\": {\"number\": %d}}\n", *holder.number);
    zoo_holder(&holder);
    const int32_t* one = std::get_if<1>(&holder.any);
    printf("{\"probe\": \"any\", \"fields\": {\"index\": %zu, \"one\": %s, \"a\": %s, \"number\": %s}}\n", holder.any.index(),
           or_null(one).c_str(), or_null(alternative ? &alternative->a : nullptr).c_str(), or_null(get(holder.number)).c_str());
    zoo_any(holder.any, holder.number);
}

static void give(const Lists& lists, int32_t index)
{
    const Inlined& inlined = lists.inlined;
    const Sizes& sizes = lists.sizes;
    const Range& range = lists.range;
    const int64_t* of_inlined = inlined.tag & 1 ? inlined.far : inlined.near;
    const int64_t* of_sizes = sizes.dims > 5 ? sizes.far : sizes.near;
    uint64_t of = inlined.tag >> 1, in_range = range.end - range.first;
    auto at = [index](const auto* from, uint64_t count) {
        return index >= 0 && static_cast<uint64_t>(index) < count ? text(from[index]) : std::string("null");
    };
    printf("{\"probe\": \"lists\", \"fields\": {\"small\": %u, \"of_small\": %s, \"inlined\": %lu, \"of_inlined\": %s, \"sizes\": %lu, "
           "\"of_sizes\": %s, \"range\": %lu, \"of_range\": %s, \"last\": %s, \"b\": %s}}\n",
           lists.small.count, at(lists.small.data, lists.small.count).c_str(), of, at(of_inlined, of).c_str(), sizes.dims,
           at(of_sizes, sizes.dims).c_str(), in_range, at(range.first, in_range).c_str(),
           sizes.dims ? text(of_sizes[sizes.dims - 1]).c_str() : "-1",
           index >= 0 && index < lists.parts.count ? text(lists.parts.parts[index].b).c_str() : "null");
    printf("{\"probe\": \"small\", \"fields\": {\"all\": %s}}\n", list(lists.small.data, lists.small.count, 8).c_str());
    printf("{\"probe\": \"inlined\", \"fields\": {\"all\": %s}}\n", list(of_inlined, of, 3).c_str());
    printf("{\"probe\": \"sizes\", \"fields\": {\"all\": %s}}\n", list(of_sizes, sizes.dims, 8).c_str());
    std::vector<int64_t> all;
    for (int32_t i = 0; i < lists.parts.count; i++)
        all.push_back(lists.parts.parts[i].b);
    printf("{\"probe\": \"parts\", \"fields\": {\"all\": %s}}\n", list(all.data(), all.size(), 4).c_str());
    zoo_lists(&lists, index);
    zoo_each(&lists);
}

#define AT(type, member) printf("%s.%s %zu\n", #type, #member, offsetof(type, member))

static void print_offsets()
{
    AT(Holder, number); AT(Holder, narrow); AT(Holder, flag); AT(Holder, name); AT(Holder, part); AT(Holder, pointer);
    AT(Holder, list); AT(Holder, several); AT(Holder, fixed); AT(Holder, any); AT(Holder, small); AT(Holder, sized);
    AT(Holder, failing); AT(Holder, within); AT(Holder, last);
}

int main(int argc, char**)
{
    if (argc > 1) {
        print_offsets();
        return 0;
    }
    Part part{7, 70};
    std::vector<Part> parts{{1, 10}, {2, 20}, {3, 30}};
    Holder none, some, other;
    none.several.resize(2);
    some.number = 5;
    some.narrow = -3;
    some.flag = false;
    some.name = "a name that is longer than what lies in place";
    some.part = Part{8, 80};
    some.pointer = &part;
    some.list = std::vector<int32_t>{1, 2, 3};
    some.several = {std::nullopt, 22};
    some.fixed[2] = 333;
    some.any = 42;
    some.small = true;
    some.sized = Wide{{0, 0, 0, 0, 0, 0, 0, 77}};
    some.failing = Bomb(9);
    some.last = 99;
    other.number = 0;
    other.name = "";
    other.list = std::vector<int32_t>();
    other.several.resize(2);
    other.any = std::string("in a variant");
    other.small = static_cast<int8_t>(-8);
    other.sized = Part{4, 40};
    try {
        other.failing.emplace<1>(-1);
    } catch (int) {
    }
    Holder third = none, fourth = none;
    third.any = Part{6, 60};
    fourth.within = std::optional<int16_t>(16);

    int64_t far[7] = {100, 101, 102, 103, 104, 105, 106};
    int32_t numbers[4] = {-1, -2, -3, -4};
    Lists empty{}, near{}, away{};
    empty.small.data = empty.small.near;
    near.small = {near.small.near, 2, 3, {11, 12, 13}};
    near.inlined.tag = 3 << 1;
    near.sizes.dims = 5;
    for (int i = 0; i < 4; i++)
        near.inlined.near[i] = 20 + i;
    for (int i = 0; i < 5; i++)
        near.sizes.near[i] = 30 + i;
    near.range = {numbers, numbers + 2, numbers + 4};
    near.parts = {parts.data(), 2};
    away.small = {far, 7, 7, {}};
    away.inlined.tag = 6 << 1 | 1;
    away.inlined.far = far;
    away.sizes.dims = 7;
    away.sizes.far = far;
    away.range = {numbers, numbers + 4, numbers + 4};
    away.parts = {parts.data(), 3};

    // Neither of these can be what its type says.
    std::optional<int32_t> no_flag = 1;
    reinterpret_cast<unsigned char*>(&no_flag)[4] = 2;
    Any no_number;
    memset(static_cast<void*>(&no_number), 0x7f, sizeof no_number);
    Parts no_parts{parts.data(), -1};
    for (int round = 0; round < 3; round++) {
        zoo_step(1);
        for (const Holder* holder : {&none, &some, &other, &third, &fourth})
            give(*holder);
        for (int32_t index : {0, 1, 4, -1})
            for (const Lists* lists : {&empty, &near, &away})
                give(*lists, index);
        printf("{\"probe\": \"wrong\", \"fields\": {\"number\": null, \"index\": null, \"b\": null}}\n");
        zoo_wrong(&no_flag, &no_number, &no_parts);
    }
    memset(static_cast<void*>(&no_number), 0, sizeof no_number);
    return 0;
}
