// What people call a conversation: its role, and the task that it is about.

import type { ConversationStatus } from "../shapes.ts";

export function conversationName(conversation: ConversationStatus): string {
  const role = conversation.role ?? conversation.agent ?? conversation.id;
  return conversation.task ? `${conversation.task} ${role}` : role;
}
