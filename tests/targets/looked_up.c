// Maps as GNU's C++ library lays them out, in a program that needs no C++ library.

struct string {
	const char *text;
	long length;
	long room[2];
};

struct element {
	struct element *next;
	struct string key;
	long value;
};

struct list {
	void *buckets;
	long bucket_count;
	struct element *first;
	long count;
	long others[3];
};

struct node {
	long colour;
	struct node *parent, *left, *right;
	int key, value;
};

struct tree {
	long compare;
	struct {
		long colour;
		struct node *root, *first, *last;
	} header;
	long count;
};

struct maps {
	struct list list;
	struct tree tree;
};

#define ELEMENTS 31
static struct node nodes[ELEMENTS];
static struct element elements[3];
static struct maps maps;

/* The middle of these nodes, which the others are below. */
static struct node *root(int from, int to, struct node *parent)
{
	int middle = (from + to) / 2;
	struct node *node = &nodes[middle];

	if (from == to)
		return 0;
	node->parent = parent;
	node->key = middle;
	node->value = middle * middle;
	node->left = root(from, middle, node);
	node->right = root(middle + 1, to, node);
	return node;
}

__attribute__((noinline, noclone)) int looked_up(const struct maps *at, int key)
{
	__asm__ volatile("" : : "r"(at), "r"(key) : "memory");
	return key;
}

int main(void)
{
	static const char *const keys[3] = { "axis", "group", "a key that is longer than what lies in place" };
	int sum = 0;

	for (int i = 0; i < 3; i++) {
		struct string *key = &elements[i].key;

		key->text = keys[i];
		while (keys[i][key->length])
			key->length++;
		key->room[0] = key->length;
		elements[i].value = 70 + i;
		elements[i].next = i < 2 ? &elements[i + 1] : 0;
	}
	maps.list.first = elements;
	maps.list.count = 3;
	maps.tree.header.root = root(0, ELEMENTS, (struct node *)&maps.tree.header);
	maps.tree.header.first = &nodes[0];
	maps.tree.header.last = &nodes[ELEMENTS - 1];
	maps.tree.count = ELEMENTS;
	for (int key = 1; key <= 20; key++)
		sum += looked_up(&maps, key);
	return sum != 210;
}
