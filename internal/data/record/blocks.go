package record

// Sizes of blocks. A block is the unit in which records are counted and permuted. It is
// small enough that a small file feeds many ranks, and large enough that the counts of a
// terabyte take a few megabytes.
const (
	minBlock    = 64 << 10
	largeBlock  = 1 << 20
	blocksAFile = 256     // target for a file of medium size
	MaxBlocks   = 1 << 24 // per dataset
)

// Block is a range of bytes of a file, or of rows of a table. A record belongs to the block that
// contains its first byte.
type Block struct {
	File   int32
	Lo, Hi int64
}

// blockBytes returns the size of the blocks of a file of a given size.
func blockBytes(size int64) int64 {
	b := (size/blocksAFile + minBlock - 1) / minBlock * minBlock
	return min(max(b, minBlock), largeBlock)
}

// cut returns the blocks of the files in order. A file that can only be read from its
// beginning, packed or with line breaks in quotes, is one block. The blocks of a table are
// its row groups.
func cut(files []File) []Block {
	var blocks []Block
	for i, f := range files {
		if f.Packing != nil {
			blocks = append(blocks, Block{int32(i), 0, unknownSize})
			continue
		}
		if f.onwards {
			blocks = append(blocks, Block{int32(i), 0, f.size})
			continue
		}
		if f.Log != nil {
			for lo := f.part.Lo; lo < f.part.Hi; lo += topicBlock {
				blocks = append(blocks, Block{int32(i), lo, min(lo+topicBlock, f.part.Hi)})
			}
			continue
		}
		if first := int64(0); f.Groups != nil {
			for _, rows := range f.Groups {
				blocks = append(blocks, Block{int32(i), first, first + rows})
				first += rows
			}
			continue
		}
		step := blockBytes(f.size)
		for lo := f.lo; lo < f.size; lo += step {
			blocks = append(blocks, Block{int32(i), lo, min(lo+step, f.size)})
		}
	}
	return blocks
}

// countBlocks returns the number of blocks that cut returns, in any size of file.
func countBlocks(files []File) (n int64) {
	for _, f := range files {
		if f.Packing != nil || f.onwards {
			n++
			continue
		}
		if f.Log != nil {
			n += (f.part.Hi - f.part.Lo + topicBlock - 1) / topicBlock
			continue
		}
		if f.Groups != nil {
			n += int64(len(f.Groups))
			continue
		}
		step := blockBytes(f.size)
		n += (f.size - f.lo + step - 1) / step
	}
	return n
}

// topicBlock is the number of offsets of a partition in a block.
const topicBlock = 1 << 10
