// What C++ keeps in memory, in functions whose arguments are known: strings of every size, vectors, smart pointers,
// base classes, unions, bit-fields, references, distances. Each function is called with the numbers that
// tests/values.rs expects. A name with `wrong` is made so that it cannot be what its type says.
// `values [ROUNDS [MICROSECONDS]]`: so many rounds, with so much sleep after each.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace zoo {

struct Animal {
    virtual ~Animal() = default;
    int32_t legs = 0;
    std::string name;
};

struct Tagged {
    uint64_t tag = 0;
};

struct Food {
    int32_t grams = 0;
    float price = 0;
};

enum class Kind { small, large };

struct Dog : Animal, Tagged {
    std::string breed;
    std::vector<int32_t> meals;
    std::vector<Food*> foods;
    std::vector<std::shared_ptr<Food>> shared_foods;
    std::vector<std::string> tricks;
    std::vector<Food> plates;
    std::vector<Kind> kinds;
    std::shared_ptr<Food> lunch;
    std::unique_ptr<Food> dinner;
    union {
        int64_t whole;
        double fraction;
    };
    union Either {
        int32_t number;
        char text[8];
    } either;
    uint32_t first : 3;
    uint32_t middle : 9;
    int32_t minus : 6;
    bool loud : 1;
    Food* bowls[3];
    Food& favourite;
    explicit Dog(Food& food) : favourite(food) {}
};

// As flatbuffers have it: a table begins with the distance back to its table of offsets.
struct Table {
    int32_t back;
};

struct Kernel {
    virtual ~Kernel() = default;
    virtual int run(int n) { return n; }
};

#define PROBED extern "C" __attribute__((noinline, visibility("default")))

PROBED int zoo_step(int n) { asm volatile(""); return n; }
PROBED int zoo_dog(Dog* dog) { asm volatile(""); return dog->legs; }
PROBED int zoo_reference(const Dog& dog, const std::vector<int32_t>& numbers, const std::string& word)
{
    asm volatile("");
    return dog.legs + static_cast<int>(numbers.size() + word.size());
}
PROBED int zoo_value(std::string word, std::shared_ptr<Food> food) { asm volatile(""); return food->grams + static_cast<int>(word.size()); }
PROBED int zoo_table(const void* table) { asm volatile("" : : "r"(table)); return 0; }
PROBED int zoo_wrong(const std::string* word, const std::vector<int32_t>* numbers)
{
    asm volatile("" : : "r"(word), "r"(numbers));
    return 0;
}
PROBED Kernel* zoo_make(const std::string* name, int kind) { asm volatile("" : : "r"(name), "r"(kind)); return new Kernel; }
PROBED void zoo_forget(Kernel* kernel) { asm volatile("" : : "r"(kernel)); }
PROBED int zoo_run(Kernel* kernel, int n) { asm volatile("" : : "r"(kernel)); return n; }
// Calls itself. What it is given has its numbers only when it returns; the food is on the stack, and may be none.
PROBED int zoo_measure(int depth, std::vector<int32_t>& numbers, long, long, long, long, Food* food)
{
    std::vector<int32_t> others(1);
    Food other;
    if (depth > 1)
        zoo_measure(depth - 1, others, 0, 0, 0, 0, depth > 2 ? &other : nullptr);
    asm volatile("" : : "r"(others.data()) : "memory");
    numbers[0] = 10 * depth;
    if (food)
        food->grams = 100 * depth;
    return depth;
}
PROBED int zoo_distances(const int32_t* distances) { asm volatile("" : : "r"(distances)); return 0; }
PROBED int zoo_texts(const char (*texts)[8]) { asm volatile("" : : "r"(texts)); return 0; }

}  // namespace zoo

using namespace zoo;

static Dog* make_dog(int number, const std::string& name, Food& favourite)
{
    Dog* dog = new Dog(favourite);
    dog->legs = 4;
    dog->name = name;
    dog->tag = 0xabcdef0000 + number;
    dog->breed = "dachshund with a rather long name, more than in place";
    for (int i = 0; i < number; i++) {
        dog->meals.push_back(100 + i);
        dog->foods.push_back(new Food{10 * i, 0.5f * static_cast<float>(i)});
        dog->shared_foods.push_back(std::make_shared<Food>(Food{20 * i, 0}));
        dog->tricks.push_back("trick " + std::to_string(i));
    }
    dog->plates.resize(2);
    dog->kinds = {Kind::large, Kind::small, Kind::large};
    dog->lunch = std::make_shared<Food>(Food{333, 0});
    dog->dinner = std::unique_ptr<Food>(new Food{444, 0});
    dog->whole = -5;
    dog->either.number = 77;
    dog->first = 5;
    dog->middle = 300;
    dog->minus = -7;
    dog->loud = true;
    for (int i = 0; i < 3; i++)
        dog->bowls[i] = new Food{1000 + i, 0};
    return dog;
}

// A table with two fields (a number, a text), one that is absent, and the text behind it.
struct Flat {
    struct Offsets {
        uint16_t bytes = 10, table = 12, number = 4, text = 8, absent = 0;
    } offsets;
    uint16_t pad = 0;
    struct {
        int32_t back;
        uint32_t number;
        uint32_t to_text;
    } table;
    uint32_t length = 5;
    char text[8] = "hello";
};

// An object that is made, used, given back, and made anew at the same address.
PROBED int zoo_kernel(int number)
{
    std::string name = "kernel " + std::to_string(number);
    Kernel* kernel = zoo_make(&name, number);
    for (int i = 0; i < 2; i++)
        zoo_run(kernel, i);
    // What it was made as is over; the address is used once more before anything is made there.
    zoo_forget(kernel);
    zoo_run(kernel, 2);
    delete kernel;
    return number;
}

int main(int argc, char** argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 3;
    Food favourite{555, 0};
    Dog* small = make_dog(3, "Rex", favourite);
    Dog* large = make_dog(12, "a name that has no room in the string itself", favourite);
    Dog* none = make_dog(0, "", favourite);
    Flat flat;
    flat.table.back = static_cast<int32_t>(reinterpret_cast<char*>(&flat.table) - reinterpret_cast<char*>(&flat.offsets));
    flat.table.number = 4711;
    flat.table.to_text = static_cast<uint32_t>(reinterpret_cast<char*>(&flat.length) - reinterpret_cast<char*>(&flat.table.to_text));
    // Neither of these is a string or a vector.
    uint64_t no_string[4] = {0x1000, 0x7fffffffffff, 3, 0x11}, no_vector[3] = {0x2000, 0x1000, 0x3000};
    uint64_t no_text = 0x1000;
    memcpy(no_string, &no_text, sizeof no_text);
    no_string[0] |= 1;
    // A number, one that nobody leads to, room, four distances, and a number; the last distance is over its bound.
    int32_t distances[64] = {7, 0, 0, 0, -16, 12, 0, 4 * 24};
    distances[8] = 9;
    distances[31] = 11;
    char texts[2][8] = {{"good"}, {'\x01', '\xff', '\x02', '\x80', 'x', 0}};
    for (int round = 0; round < rounds; round++) {
        zoo_step(1);
        zoo_dog(small);
        zoo_dog(large);
        zoo_dog(none);
        zoo_reference(*small, small->meals, small->name);
        zoo_value("by value", small->lunch);
        zoo_table(&flat.table);
        zoo_wrong(reinterpret_cast<std::string*>(no_string), reinterpret_cast<std::vector<int32_t>*>(no_vector));
        zoo_texts(texts);
        zoo_distances(distances);
        std::vector<int32_t> numbers(1);
        Food food;
        zoo_measure(3, numbers, 0, 0, 0, 0, &food);
        if (argc > 2)
            usleep(atoi(argv[2]));
    }
    for (int number = 0; number < 3; number++)
        zoo_kernel(number);
    printf("done\n");
    return 0;
}
