// Inflates what the page's columns were deflated to (RFC 1951), for browsers without DecompressionStream.

const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const DISTANCES = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577];
const CODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const lengthBits = (n) => (n < 4 || n === 28 ? 0 : (n >> 2) - 1);
const distanceBits = (n) => (n < 2 ? 0 : (n >> 1) - 1);

// A canonical Huffman code: how many codes of each length, and their symbols in order.
function huffman(lengths) {
  const counts = new Uint16Array(16), at = new Uint16Array(16);
  lengths.forEach((length) => counts[length]++);
  counts[0] = 0;
  for (let length = 1; length < 15; length++) at[length + 1] = at[length] + counts[length];
  const symbols = new Uint16Array(lengths.length);
  lengths.forEach((length, symbol) => { if (length) symbols[at[length]++] = symbol; });
  return { counts, symbols };
}

function inflate(input) {
  let output = new Uint8Array(Math.max(1024, input.length * 4)), size = 0, at = 0, held = 0, bits = 0;
  const take = (count) => {
    while (bits < count) {
      if (at >= input.length) throw new Error("the page's data ends too early");
      held |= input[at++] << bits;
      bits += 8;
    }
    const value = held & ((1 << count) - 1);
    held >>>= count;
    bits -= count;
    return value;
  };
  const decode = ({ counts, symbols }) => {
    let code = 0, first = 0, index = 0;
    for (let length = 1; length <= 15; length++) {
      code |= take(1);
      const count = counts[length];
      if (code - first < count) return symbols[index + code - first];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    throw new Error("the page's data is damaged");
  };
  const reserve = (more) => {
    if (size + more <= output.length) return;
    const larger = new Uint8Array(Math.max(size + more, output.length * 2));
    larger.set(output);
    output = larger;
  };
  const codes = () => {
    const [literals, distances, lengths] = [take(5) + 257, take(5) + 1, take(4) + 4];
    const ofLengths = new Uint8Array(19);
    for (let n = 0; n < lengths; n++) ofLengths[CODE_ORDER[n]] = take(3);
    const code = huffman(ofLengths), all = new Uint8Array(literals + distances);
    for (let n = 0; n < all.length;) {
      const symbol = decode(code);
      if (symbol < 16) { all[n++] = symbol; continue; }
      const [value, times] = symbol === 16 ? [all[n - 1], 3 + take(2)] : [0, symbol === 17 ? 3 + take(3) : 11 + take(7)];
      for (let i = 0; i < times; i++) all[n++] = value;
    }
    return [huffman(all.subarray(0, literals)), huffman(all.subarray(literals))];
  };
  const fixed = () => {
    const lengths = new Uint8Array(288);
    lengths.fill(8, 0, 144).fill(9, 144, 256).fill(7, 256, 280).fill(8, 280);
    return [huffman(lengths), huffman(new Uint8Array(30).fill(5))];
  };
  for (let last = 0; !last;) {
    last = take(1);
    const kind = take(2);
    if (kind === 0) {
      [held, bits] = [0, 0];
      const length = input[at] | (input[at + 1] << 8);
      reserve(length);
      output.set(input.subarray(at + 4, at + 4 + length), size);
      [size, at] = [size + length, at + 4 + length];
      continue;
    }
    const [literals, distances] = kind === 1 ? fixed() : codes();
    for (;;) {
      const symbol = decode(literals);
      if (symbol === 256) break;
      if (symbol < 256) { reserve(1); output[size++] = symbol; continue; }
      const length = LENGTHS[symbol - 257] + take(lengthBits(symbol - 257));
      const code = decode(distances);
      const distance = DISTANCES[code] + take(distanceBits(code));
      reserve(length);
      for (let n = 0; n < length; n++, size++) output[size] = output[size - distance];
    }
  }
  return output.subarray(0, size);
}
