"""The sentence of each `UserMistake`, in English: its message id in the catalogues."""

from __future__ import annotations

from collections.abc import Mapping

MISTAKES: Mapping[str, str] = {
    "user_mistake": "That is not possible.",
    "unknown_job": "The bot does not have this picture, or no longer has it.",
    "newer_request": "This has settings of a newer version of the bot: try again in a few minutes.",
    "stopping": "The bot is being restarted and could not finish this: try it again in a minute.",
    "not_yours": "Only the person who asked for this picture, or a moderator, can do that.",
    "already_ended": "This has already ended: there is nothing left to cancel.",
    "nothing_to_cancel": "You have no requests that are waiting or being painted.",
    "size_or_aspect": (
        "“{value}” is neither a size, width x height, nor a shape such as 3:2: choose from {choices}."
    ),
    "strength_alone": "Strength is how much to change a picture: send that picture too.",
    "control_alone": "Control type and strength say how to keep a composition: send its picture too.",
    "image_prompt_alone": "The strength of an image prompt says how much a picture counts: send it too.",
    "references_kept": "“{name} {value}” is not possible here: choose a number from 0 to {limit}.",
    "control_type_missing": "Say what to keep of the control picture: choose a control type from {choices}.",
    "picture_heavy": "{what} is larger than {limit} MB: send a smaller file.",
    "picture_large": "{what} has more than {limit} million pixels: send a smaller picture.",
    "picture_small": ("{what} is too small to start from: send a picture of at least {limit} pixels a side."),
    "picture_thin": "{what} is too thin: its longer side may be at most {limit} times its shorter side.",
    "picture_gone": "{what} is no longer on Discord: send it again.",
    "picture_unreachable": "{what} could not be fetched from Discord: please send it again in a minute.",
    "picture_costly": "{what} takes too much time or memory to read: send a smaller picture.",
    "files_busy": "Many pictures are being read right now: please send yours again in a minute.",
    "too_quick": "You are going too fast: please try again in {seconds} s.",
    "server_too_quick": "This server is going too fast: please try again in {seconds} s.",
    "files_too_quick": (
        "You have sent many pictures in a short time: please send this one again in {seconds} s."
    ),
    "server_files_too_quick": (
        "This server has sent many pictures in a short time: please send yours again in {seconds} s."
    ),
    "no_larger_size": "{model} paints no larger picture of this shape.",
    "hires": (
        "“{value}” is not a second pass: write a larger size, optionally with a strength and steps, "
        "such as 1024x1024 0.5 15. Sizes: {choices}."
    ),
    "rule_automod": (
        "The AutoMod rule “{rule}” of this server does not allow this: change the words and ask again."
    ),
    "rule_refused": ("The rule “{rule}” of this server does not allow this: change the words and ask again."),
    "judging_rule": (
        "Checking this against the rule “{rule}” of this server takes too long: shorten it, or tell a "
        "moderator."
    ),
    "judging_long": "Checking this takes too long: shorten it and ask again.",
    "rule_always": "Sexual content with minors is never painted here: change the words.",
    "rule_name": (
        "A rule's name has 1 to {limit} characters, all of which can be seen: choose another name."
    ),
    "rule_terms": (
        "A rule has 1 to {limit} words or phrases, one a line, of up to {characters} characters each: "
        "change them."
    ),
    "rule_slow": (
        "With these words, checking a prompt would take too long: leave out words that differ only in "
        "repeated letters, or shorten long phrases."
    ),
    "rule_none": "There is no rule “{value}”, as there are no rules here yet.",
    "rule_unknown": "There is no rule “{value}” here: choose from {choices}.",
    "rules_full": "A server can have at most {limit} rules: remove one first.",
    "settings_no_server": (
        "Only servers with the bot have channel and server settings: change your own here."
    ),
    "settings_channel_right": "You need Manage Channels to change this channel's settings: change yours.",
    "settings_server_right": "You need Manage Server to change this server's settings: change your own.",
    "settings_name": "“{value}” is not a setting: choose from {choices}, separated by commas.",
    "settings_switch": "The setting {name} is on or off, not “{value}”: type one of the two.",
    "settings_number": "The setting {name} takes a number, not “{value}”: type one.",
    "style_name": (
        "A style's name has 1 to {limit} characters, all of which can be seen: choose another name."
    ),
    "style_text": "A style's text may have {limit} characters, and this has {count}: shorten it.",
    "style_example": (
        "The example is the link of a message of this server, or the id of a result here: copy it again."
    ),
    "style_none": "There is no style “{value}”, as there are no styles here yet: leave the style out.",
    "style_unknown": "There is no style “{value}” here: choose from {choices}.",
    "style_of_all": "Every server has this style: the bot's owner can remove it.",
    "styles_full": "A server can have at most {limit} styles: remove one first.",
    "kept_no_server": "Styles and lists belong to a server: use the command in a server.",
    "kept_right": "You need the permission Manage Messages to change styles and lists: ask a moderator.",
    "wildcard_name": (
        "A list's name has 1 to {limit} characters, without spaces, commas and braces: choose another name."
    ),
    "wildcard_entries": (
        "A list has 1 to {limit} entries, one a line, of up to {characters} characters each: change it."
    ),
    "wildcard_none": (
        "There is no list “{value}”, as there are no lists here yet: leave its underscores out, or "
        "write `\\_` for each."
    ),
    "wildcard_unknown": (
        "There is no list “{value}” here: choose from {choices}, or write `\\_` for an underscore."
    ),
    "wildcards_full": "A server can have at most {limit} lists: remove one first.",
    "expansion_deep": "Braces can be nested {limit} deep: remove some.",
    "expansion_many": (
        "These alternatives make {value} prompts, and you may ask for {limit} at once: leave some out."
    ),
    "expansion_image": (
        "With a picture that you give, one prompt is painted at a time: leave the alternatives in braces out."
    ),
    "generation_data_none": (
        "This holds no generation data: copy all of the text that A1111, Civitai, ComfyUI or InvokeAI "
        "shows for a picture."
    ),
    "generation_data_no_file": (
        "This file holds no generation data: choose the original file, or paste the text."
    ),
    "generation_data_long": (
        "This generation data is longer than {limit} kB: paste only what belongs to one picture."
    ),
    "generation_data_damaged": "This generation data is incomplete or damaged: copy all of it again.",
    "generation_data_version": (
        "This picture's recipe is of a later version of the bot: type its settings instead."
    ),
    "generation_data_graph": (
        "This ComfyUI workflow has no single path from a prompt to a picture: type its prompt and "
        "settings instead."
    ),
    "recipe_none": (
        "This message does not say how a picture was painted: choose one with generation data in its "
        "text, or with an original picture or workflow file."
    ),
    "recipe_none_in_files": (
        "Neither this message nor its first {count} files say how a picture was painted: choose "
        "another message."
    ),
    "message_no_picture": (
        "This message has no picture to paint from: choose one with a PNG, JPEG, WebP or GIF picture."
    ),
    "message_file_gone": "{what} is no longer on Discord: choose another message.",
    "message_file_unreachable": (
        "{what} could not be fetched from Discord: please choose the menu of the message again in a minute."
    ),
    "words_forgotten": (
        "The bot no longer has what you typed, most likely because it was restarted: type it again."
    ),
    "form_forgotten": "The bot no longer knows this form: choose it in the menu of the message again.",
    "favourites_full": "You can have {limit} favourites: remove one first.",
    "export_runs": "Your export is being made: wait until it is here.",
    "picture_unsigned": (
        "The picture cannot be marked as AI-generated at the moment, so it is not sent: try again later."
    ),
    "export_late": "Your export was not ready in time: try it again later.",
    "publish_restricted": ("This was painted in an age-restricted channel: publish it in such a channel."),
    "publish_again": (
        "This result is in this channel already: delete that message first to publish it once more."
    ),
    "show_restricted": ("This was painted in an age-restricted channel: look at it in such a channel."),
    "null_character": "A null character cannot be stored: leave it out.",
    "no_picture": "This picture's file is gone: choose another, or ask for it again.",
    "queue_full_user": (
        "At most {limit} of your pictures can wait, and large ones count as several: wait for some to "
        "start or cancel some, then ask again."
    ),
    "queue_full_server": (
        "This server's queue is full, with places for {limit} pictures: please ask again a little later."
    ),
    "queue_full": "The queue is full, with places for {limit} pictures: please ask again a little later.",
    "outdated_command": "This command has changed: restart Discord to see the new one.",
    "moderate_no_server": "This command works only in a server that has the bot.",
    "moderate_right": "You need the permission Manage Messages in the whole server: ask a moderator.",
    "block_self": "You cannot block yourself: choose another member.",
    "block_bot": "A bot asks for no pictures: choose a person.",
    "block_moderator": (
        "The owner and members with Manage Messages cannot be blocked: take that permission away first."
    ),
    "not_blocked": "No moderator of this server has blocked this member: {command} shows who is blocked.",
    "not_paused": "Painting is not paused there: {command} shows where it is.",
    "nothing_to_clear": "This member has asked for nothing here in these hours: choose more hours.",
    "audit_empty": "Nothing of this kind is in the log: choose another member or act.",
    "blocked_here": "A moderator has blocked you from painting in this server.",
    "blocked_server": "The bot's owner has blocked this server from painting.",
    "blocked_everywhere": "The bot's owner has blocked you from painting.",
    "blocked_for_good": "The block has no end date: ask a moderator to remove it.",
    "blocked_until": "This ends {until}.",
    "blocked_reason": "The reason: {reason}",
    # policies and quotas
    "policy_paint": "You may not paint here: ask a moderator who may, and where.",
    "policy_model": "The model {value} is not allowed here: choose from {choices}.",
    "policy_size": "{value} is larger than pictures may be here: choose at most about {limit}.",
    "policy_steps": "At most {limit} steps are allowed here: choose fewer.",
    "policy_variants": "At most {limit} pictures at once are allowed here: ask for fewer.",
    "policy_lora": "The LoRA {value} is not allowed here: leave it out. Allowed: {choices}.",
    "policy_start_pictures": "Pictures may not be made from other pictures here: describe yours in words.",
    "policy_private_never": "Private results are not allowed here: ask for one that everyone sees.",
    "policy_private_always": "Results are private here: ask for a private one.",
    "publish_policy": "The policy here does not allow this picture: publish it in another channel.",
    "publish_rule": (
        "The rule “{rule}” of this server does not allow this here: publish it in another channel."
    ),
    "policy_right": "You need the permission Manage Server to change policies: ask a server manager.",
    "policy_nothing": "There is no such policy: {command} shows the policies of this server.",
    "policy_two": "A policy is for a role or for a channel: leave one of the two out.",
    "policies_full": "A server can have at most {limit} policies: reset one first.",
    "policy_number": (
        "“{value}” is not a number that fits “{name}”: write one from {least} to {limit}, "
        "“-” for no limit, or nothing."
    ),
    "policy_pixels": "“{value}” is not a size: write one such as 768x768, “-” for no limit, or nothing.",
    "policy_unknown": "“{value}” is not offered here: choose from {choices}, with commas between.",
    "quota_pictures_per_hour": "Pictures an hour: you may ask for {limit} here, {left} are left.",
    "quota_pictures_per_day": "Pictures a day: you may ask for {limit} here, {left} are left.",
    "quota_cost_per_hour": "Hourly cost, in standard pictures: you have {limit} here, {left} are left.",
    "quota_cost_per_day": "Daily cost, in standard pictures: you have {limit} here, {left} are left.",
    "quota_cool_down": "Between two requests there must be {seconds} seconds here.",
    "quota_again": "Please ask again {at}.",
    "quota_next": "The next is free {at}.",
    "quota_fewer": "Ask for fewer or smaller pictures.",
    # the queue
    "store_unavailable": "The queue cannot be reached right now: please ask again in a minute.",
    # known pictures
    "start_known": "{what} is blocked here, or almost identical to a blocked picture: choose another.",
    "publish_known": (
        "Every picture of this result is blocked here, or almost identical to a blocked picture: "
        "publish another result."
    ),
    "whose_nothing": "Send a picture, or the link of a message that has one.",
    "whose_link": "“{link}” is not the link of a message of this server that you and the bot can read.",
    "whose_hidden": "Discord shows the bot no files of that message: use “{menu}” in its menu.",
    "whose_no_picture": "This message has no picture.",
    "known_full": "A server can block {limit} pictures: remove one first.",
    "known_twice": "This picture is blocked already.",
    "known_unknown": "No blocked picture is called “{name}”: choose one of the suggestions.",
    # reviews, reports and appeals
    "words_held": (
        "A rule of this server hides the words of this request: only the person who made it can use them."
    ),
    "picture_held": (
        "This picture is waiting for moderators: it is not shown until one of them approves it."
    ),
    "review_over": (
        "This was decided already, or the person who asked for it has deleted it: the message shows "
        "what happened."
    ),
    "review_own": (
        "This is your own request: another moderator or the owner of the server has to decide it."
    ),
    "review_nothing_set": "Choose the hours, the reports or both.",
    "compare_two": "Two pictures can be compared: mark exactly two.",
    "archive_busy": "You or several others are downloading pictures right now: try again in a minute.",
    "review_claimed": "Another moderator looks at this at the moment: take the next one.",
    "review_gone": "This review is no longer kept.",
    "report_own": "This picture is your own: delete it with the button below it.",
    "report_twice": "You have reported this picture already: moderators see your report.",
    "reports_full": "You may report {limit} pictures a day: please tell a moderator of this one.",
    "report_no_picture": "This message shows no picture of this bot: choose one that does.",
    "appeal_over": "You have appealed already, or it is too late to appeal.",
    "appeals_full": "You may appeal {limit} times a day: please try again tomorrow.",
    # group sessions
    "session_here": (
        "This channel has a group session already: close it first, or open yours in a thread of its own."
    ),
    "sessions_full": "A server can have at most {limit} group sessions at a time: close one first.",
    "session_gone": "The bot no longer knows this group session.",
    "session_none": "There is no group session in this channel: use the command where it is.",
    "session_ended": "This group session has ended.",
    "session_closing": "This group session is ending: wait for its last pictures, and ask again.",
    "session_paused": "The group session is paused: wait until its host resumes it.",
    "session_paused_led": "The group session is paused: type {command} to resume it.",
    "session_paused_host": "You host this group session, and it is paused: resume it, then ask again.",
    "session_not_paused": "The group session is not paused.",
    "session_changed": "A group session began or ended here at this moment: please ask again.",
    "session_moved": (
        "Somebody else has just gone on to the next phase: ask again if you want to go on further."
    ),
    "session_private": "In a group session everyone sees the pictures: ask for one that is not private.",
    "session_round_over": "This round is over: wait until the next one begins.",
    "session_quota": (
        "In a round each person may paint {limit} pictures, and you have {left} left: "
        "ask for fewer, or wait for the next round."
    ),
    "session_quota_used": (
        "You have used your pictures of this round, {limit} for each person: wait for the next one."
    ),
    "session_words": (
        "In this group session every prompt needs these words: {words}. Add them and ask again."
    ),
    "session_long": (
        "With the words of the group session this has more than {limit} characters: shorten your prompt."
    ),
    "session_role": "Only members with the role {role} take part in this group session.",
    "session_right": (
        "Members with the permission {permission}, and moderators, can open a group session: ask one of them."
    ),
    "session_host": "Only the host of this group session, or a moderator, can do that.",
    "session_moderator": (
        "Only moderators, who may manage messages here, can become the host: ask one of them."
    ),
    "session_theme": "A theme has at most {limit} characters: shorten it.",
    "session_required": (
        "There may be {limit} required words, of up to {characters} characters each: leave some out."
    ),
    "session_minutes": (
        "“{value}” is not the length of a round: type 1 to {limit} minutes, or leave the field empty."
    ),
    "session_pictures": "“{value}” is not a number of pictures: type 1 to {limit}.",
    "session_no_thread": (
        "The bot cannot begin a thread here: allow it to create public threads, "
        "or open the session in this channel."
    ),
    "session_no_post": (
        "The bot cannot begin a post in this forum: allow it to create posts, or choose another channel."
    ),
    "session_two_places": (
        "A session in another channel begins a thread or a post there: leave out one option."
    ),
    "session_not_there": "You may not write in {channel}: choose another channel.",
    "session_no_right": (
        "The bot needs the permissions to see this channel and its history, to write and to attach "
        "files: grant them, or choose another channel."
    ),
    "session_sheet": (
        "This message shows pictures of a group session together: "
        "use the menu of the picture's own message, further up in this channel."
    ),
    "vote_closed": "The vote of this round is over: your vote does not count.",
    "vote_gone": "This picture is gone: vote for another.",
    "vote_own": "You cannot vote for your own picture: choose another.",
}
