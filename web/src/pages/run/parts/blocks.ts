// Splits Markdown where a new block must begin, so that the blocks can be rendered one by one while the text grows.

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const CONTINUES = /^(\s|[-*+>|]|\d+[.)]|$)/; // lists, quotes and tables may go on after a blank line

export function splitBlocks(text: string): string[] {
  if (text.length < 400) return [text];
  const blocks: string[] = [];
  let block: string[] = [];
  let fence = "";
  let blank = false;
  for (const line of text.split("\n")) {
    if (blank && !fence && !CONTINUES.test(line) && block.length > 0) {
      blocks.push(block.join("\n"));
      block = [];
    }
    const mark = FENCE.exec(line)?.[1];
    if (mark && !fence) fence = mark;
    else if (mark && mark[0] === fence[0] && mark.length >= fence.length && line.trim() === mark) fence = "";
    blank = line.trim() === "";
    block.push(line);
  }
  if (block.length > 0) blocks.push(block.join("\n"));
  return blocks;
}
